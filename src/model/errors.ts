/**
 * The four ways in which talking to a device fails. They are never mixed up, since each has its own consequence for
 * polling: `TransportError` reconnect or next poll, `ProtocolError` drop the connection, `ExceptionResponse` this
 * point alone. A `ConfigError` ends the start before any connection is opened.
 */
export interface Problem {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** `devices.boiler.points.pressure` */
  readonly path: string;
  readonly message: string;
}

export function formatProblem(problem: Problem): string {
  const path = problem.path === '' ? '' : ` ${problem.path}:`;
  return `${problem.file}:${problem.line}:${problem.column}:${path} ${problem.message}`;
}

export class ConfigError extends Error {
  readonly code = 'config';
  readonly problems: readonly Problem[];
  /** Every file that was read, or could not be. */
  readonly files: readonly string[];
  constructor(problems: readonly Problem[], files: readonly string[]) {
    super(problems.map(formatProblem).join('\n'));
    this.problems = problems;
    this.files = files;
  }
}

export class TransportError extends Error {
  readonly code = 'transport';
  /** `timeout`: no reply in time. `no_connection`: nobody to ask. `cancelled`: not asked any more. */
  readonly kind: 'timeout' | 'no_connection' | 'cancelled';
  /** Whether a request had left when it failed, so that the device may have acted on it. */
  readonly sent: boolean;
  constructor(kind: TransportError['kind'], message: string, sent = true) {
    super(message);
    this.kind = kind;
    this.sent = sent;
  }
}

export class ProtocolError extends Error {
  readonly code = 'protocol';
}

/** MODBUS Application Protocol V1.1b3, section 7. */
const EXCEPTION_NAMES: Readonly<Record<number, string>> = {
  1: 'illegal function',
  2: 'illegal data address',
  3: 'illegal data value',
  4: 'server device failure',
  5: 'acknowledge',
  6: 'server device busy',
  8: 'memory parity error',
  10: 'gateway path unavailable',
  11: 'gateway target device failed to respond',
};

export class ExceptionResponse extends Error {
  readonly code = 'exception';
  readonly exception: number;
  readonly exceptionName: string;
  constructor(exception: number) {
    const name = EXCEPTION_NAMES[exception] ?? 'unknown exception';
    super(`the device answered exception ${exception} (${name})`);
    this.exception = exception;
    this.exceptionName = name;
  }
}

/** The device answered in its own words that it did not do what it was asked. */
export class RefusedByDevice extends Error {
  readonly code = 'refused_by_device';
}

export const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const UNTRUSTED = 'its certificate is of an authority that is not trusted here; NODE_EXTRA_CA_CERTS names one that is';

/** Why the operating system said no, in words. */
export function systemReason(error: unknown): string {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  const known: Record<string, string> = {
    ENOENT: 'there is no such file',
    EACCES: 'permission denied',
    EPERM: 'permission denied',
    EISDIR: 'it is a folder',
    ENOTDIR: 'a part of its path is not a folder',
    EEXIST: 'a part of its path is not a folder',
    ENOSPC: 'the disk is full',
    EROFS: 'the file system is read-only',
    UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
    SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
    DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
    ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
    CERT_HAS_EXPIRED: 'its certificate has expired',
  };
  return (code !== undefined ? known[code] : undefined) ?? code ?? wordsOf(error);
}
