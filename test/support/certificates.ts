import { execFileSync } from 'node:child_process';

const NEW_KEY = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes';

/** A certificate authority in a folder, and certificates of it for `device.example` and `bridge.example`. @returns the folder */
export function certificates(folder: string): string {
  const openssl = (words: string, subject?: string) =>
    execFileSync('openssl', [...words.split(' '), ...(subject === undefined ? [] : ['-subj', subject])], { cwd: folder, stdio: 'ignore' });
  openssl(`req -x509 ${NEW_KEY} -keyout ca.key -out ca.pem -days 2`, '/CN=Test CA');
  for (const name of ['device', 'bridge']) {
    openssl(`req ${NEW_KEY} -keyout ${name}.key -out ${name}.csr`, `/CN=${name}.example`);
    openssl(`x509 -req -in ${name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out ${name}.pem -days 2`);
  }
  return folder;
}
