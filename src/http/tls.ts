import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import type { Log } from '../drivers/driver.ts';
import type { TlsSettings } from '../model/access.ts';
import { wordsOf } from '../model/errors.ts';

const LOOK_EVERY = 2000;

export const tlsOptions = ({ cert, key, clientCa }: TlsSettings): SecureContextOptions & { requestCert: boolean } => ({
  cert,
  key,
  ...(clientCa !== undefined && { ca: clientCa }),
  minVersion: 'TLSv1.2',
  requestCert: clientCa !== undefined,
});

/** Takes up renewed certificates as their files change; one that does not go with its key leaves the old ones in use. */
export class CertificateWatch {
  private readonly files: readonly string[];
  private readonly look: () => void;

  constructor(settings: TlsSettings, use: (settings: TlsSettings) => void, log: Log) {
    const { files } = settings;
    this.files = [...new Set(Object.values(files))];
    // As the map reads it: a last line break is no part of it.
    const text = (file: string | undefined, known: string): string =>
      file === undefined ? known : readFileSync(file, 'utf8').replace(/\r?\n$/, '');
    let last = settings;
    this.look = () => {
      try {
        const now: TlsSettings = {
          files,
          cert: text(files.cert, settings.cert),
          key: text(files.key, settings.key),
          ...(settings.clientCa !== undefined && { clientCa: text(files.clientCa, settings.clientCa) }),
        };
        if (now.cert === last.cert && now.key === last.key && now.clientCa === last.clientCa) return;
        createSecureContext(tlsOptions(now));
        use(now);
        last = now;
        log.info({}, 'the certificate of the listener was renewed');
      } catch (error) {
        // A certificate and its key are two files: between the two they do not go together.
        log.warn({}, `the certificate of the listener can not be renewed yet, and the old one stays: ${wordsOf(error)}`);
      }
    };
    for (const file of this.files) watchFile(file, { interval: LOOK_EVERY, persistent: false }, this.look);
    // They may have changed since the map was read.
    this.look();
  }

  stop(): void {
    for (const file of this.files) unwatchFile(file, this.look);
  }
}
