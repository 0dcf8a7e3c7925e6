import { once } from 'node:events';
import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { dirname } from 'node:path';
import type { Log } from '../drivers/driver.ts';
import { systemReason } from '../model/errors.ts';
import type { Role } from '../model/role.ts';
import type { WriteOutcome } from '../model/write.ts';
import { AuditError } from './audit/files.ts';
import { DecisionError, type PendingView } from './pending.ts';

/** What a person asks of a running bridge, one JSON line each. */
export type DoorRequest =
  | { readonly ask: 'pending' }
  | { readonly ask: 'approve' | 'decline'; readonly id: string; readonly by: string; readonly why?: string }
  | { readonly ask: 'lock' | 'unlock'; readonly by: string; readonly why?: string }
  | {
      readonly ask: 'write';
      readonly point: string;
      readonly value: unknown;
      readonly role: Role;
      readonly by: string;
      readonly why?: string;
      readonly dry_run?: boolean;
    };

export type DoorReply = { readonly error: string } | { readonly pending?: readonly PendingView[]; readonly outcome?: WriteOutcome };

/** What stands behind the door. */
export interface DoorKeeper {
  readonly pending: readonly PendingView[];
  decide(id: string, verdict: 'approved' | 'declined', by: string, why?: string): Promise<WriteOutcome>;
  noteLock(kind: 'lock' | 'unlock', by: string, why: string | undefined): Promise<void>;
  /** A write of a person who is here, through the gates of any other. @throws DecisionError where there is no such point */
  writeByHand(request: Extract<DoorRequest, { ask: 'write' }>): Promise<WriteOutcome>;
}

const LONGEST = 10_000;

/**
 * The way in for people, beside the one for assistants: a socket of the file system that only the bridge's own user and
 * root can open. Whoever can open it is believed who he says he is.
 */
export class ControlDoor {
  private readonly server: Server;
  private readonly path: string;
  private readonly sockets = new Set<Socket>();

  private constructor(server: Server, path: string) {
    this.server = server;
    this.path = path;
  }

  /** @returns undefined, and a warning, where it can not be opened: approvals have to wait then */
  static async open(path: string, keeper: DoorKeeper, log: Log): Promise<ControlDoor | undefined> {
    const server = createServer();
    const door = new ControlDoor(server, path);
    server.on('connection', socket => door.serve(socket, keeper, log));
    try {
      mkdirSync(dirname(path), { recursive: true, mode: 0o750 });
      // Whoever holds the audit file is the only bridge here: what is left of an earlier one is in nobody's use.
      rmSync(path, { force: true });
      const listening = once(server, 'listening');
      // The socket is made before listen() returns: nothing else that the process makes meanwhile gets these rights.
      const umask = process.umask(0o177);
      try {
        server.listen(path);
      } finally {
        process.umask(umask);
      }
      await listening;
      // A folder's default access list overrules the umask.
      chmodSync(path, 0o600);
      server.on('error', () => undefined);
      return door;
    } catch (error) {
      log.warn({}, `the control door ${path} can not be opened: ${systemReason(error)}; nobody can approve, lock or unlock by command`);
      return undefined;
    }
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise(resolve => this.server.close(resolve));
    rmSync(this.path, { force: true });
  }

  private serve(socket: Socket, keeper: DoorKeeper, log: Log): void {
    this.sockets.add(socket);
    let text = '';
    socket.on('error', () => undefined);
    socket.on('close', () => this.sockets.delete(socket));
    socket.on('data', chunk => {
      text += chunk.toString();
      if (text.length > LONGEST) socket.destroy();
      const end = text.indexOf('\n');
      if (end < 0) return;
      const line = text.slice(0, end);
      text = '';
      answer(line, keeper).then(
        reply => socket.end(`${JSON.stringify(reply)}\n`),
        error => {
          log.warn({ err: error }, 'a request at the control door could not be carried out');
          socket.destroy();
        },
      );
    });
  }
}

async function answer(line: string, keeper: DoorKeeper): Promise<DoorReply> {
  try {
    const request = JSON.parse(line) as DoorRequest;
    switch (request.ask) {
      case 'pending':
        return { pending: keeper.pending };
      case 'approve':
      case 'decline':
        return {
          outcome: await keeper.decide(request.id, request.ask === 'approve' ? 'approved' : 'declined', request.by, request.why),
        };
      case 'lock':
      case 'unlock':
        await keeper.noteLock(request.ask, request.by, request.why);
        return {};
      case 'write':
        return { outcome: await keeper.writeByHand(request) };
      default:
        return { error: 'this is nothing that the control door knows' };
    }
  } catch (error) {
    if (error instanceof DecisionError || error instanceof AuditError) return { error: error.message };
    if (error instanceof SyntaxError) return { error: 'a line of JSON is expected' };
    throw error;
  }
}
