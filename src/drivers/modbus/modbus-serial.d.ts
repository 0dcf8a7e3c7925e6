declare module 'modbus-serial/utils/crc16.js' {
  /** CRC-16 of MODBUS over Serial Line V1.02, 6.2.2. */
  export default function crc16(bytes: Uint8Array): number;
}
