import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose';
import { onTestFinished } from 'vitest';

export const ISSUER = 'https://id.example';
export const AUDIENCE = 'https://bridge.example/mcp';

/** The part of an authorization server that a resource server sees: keys at an address, and tokens made with them. */
export class AuthorizationServer {
  /** How often its keys were asked for. */
  asked = 0;
  /** Whether it answers. */
  isUp = true;
  private readonly server: Server;
  private readonly published: JWK[] = [];
  private key: { readonly id: string; readonly secret: Awaited<ReturnType<typeof generateKeyPair>>['privateKey'] } | undefined;

  private constructor() {
    this.server = createServer((_request, response) => {
      this.asked++;
      if (!this.isUp) response.writeHead(503).end();
      else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ keys: this.published }));
    });
  }

  static async start(): Promise<AuthorizationServer> {
    const made = new AuthorizationServer();
    await made.rotate();
    await new Promise<void>(resolve => made.server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void made.server.close());
    return made;
  }

  get jwks(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/jwks.json`;
  }

  /** What the map says of it. */
  settings(more: object = {}): object {
    return { issuer: ISSUER, audience: AUDIENCE, jwks: this.jwks, ...more };
  }

  /** A new key from now on; the old one stays published. */
  async rotate(): Promise<void> {
    const { publicKey, privateKey } = await generateKeyPair('ES256');
    const id = `key-${this.published.length}`;
    this.published.push({ ...(await exportJWK(publicKey)), kid: id, alg: 'ES256', use: 'sig' });
    this.key = { id, secret: privateKey };
  }

  get publicKey(): JWK {
    return this.published.at(-1) ?? {};
  }

  /** @param seconds from now to its end */
  async token(claims: JWTPayload = {}, seconds = 60): Promise<string> {
    return await this.endless({ exp: Math.floor(Date.now() / 1000) + seconds, ...claims });
  }

  /** One that never ends. */
  async endless(claims: JWTPayload = {}): Promise<string> {
    const { id = '', secret } = this.key ?? {};
    if (secret === undefined) throw new Error('no key');
    return await new SignJWT({ sub: 'assistant', role: 'operator', iss: ISSUER, aud: AUDIENCE, ...claims })
      .setProtectedHeader({ alg: 'ES256', kid: id })
      .sign(secret);
  }
}
