/* An independent master: reads and writes the simulated boiler house by libmodbus and prints what came of it. */
#include <errno.h>
#include <modbus/modbus.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  uint16_t words[3];
  const uint16_t settings[2] = {620, 2};
  modbus_t *bus = modbus_new_tcp("127.0.0.1", argc > 1 ? atoi(argv[1]) : 502);
  if (bus == NULL || modbus_connect(bus) == -1) return 1;
  modbus_set_slave(bus, 1);
  int count = modbus_read_registers(bus, 70, 3, words);
  printf("registers %d: %d %d %d\n", count, words[0], words[1], words[2]);
  printf("write single: %d\n", modbus_write_register(bus, 72, 60));
  printf("write multiple: %d\n", modbus_write_registers(bus, 70, 2, settings));
  /* 60 = 0x3c, keep the upper bits and set the low nibble to 8: 0x38 = 56 */
  printf("mask: %d\n", modbus_mask_write_register(bus, 72, 0xfff0, 0x0008));
  printf("coil: %d\n", modbus_write_bit(bus, 5, 1));
  modbus_write_register(bus, 71, 0);
  if (modbus_read_registers(bus, 30, 1, words) == -1) printf("missing: %s\n", modbus_strerror(errno));
  modbus_close(bus);
  modbus_free(bus);
  return 0;
}
