import type { Readable, Writable } from 'node:stream';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { DEFAULT_LIMITS } from '../model/limits.ts';
import type { Principal } from '../model/write.ts';
import { STDIO_REVISIONS } from './exchange.ts';
import { createServer, type ServerParts, tellListChanged } from './server.ts';
import { StdioTransport } from './stdio-transport.ts';
import type { News } from './subscriptions.ts';

/** Serves one client on standard input and output. @returns when the client has ended */
export function serveOnStdio(
  parts: ServerParts,
  news: News,
  principal: Principal,
  streams: { readonly input: Readable; readonly output: Writable },
): { readonly ended: Promise<void>; close(): Promise<void> } {
  const transport = new StdioTransport(streams.input, streams.output, {
    trace: parts.trace,
    unsent: DEFAULT_LIMITS.unsent,
    urisPerStream: DEFAULT_LIMITS.urisPerStream,
    cut: reason => parts.log.warn({}, `the client on standard input and output was cut: ${reason}`),
  });
  let tellEnded: () => void = () => undefined;
  const ended = new Promise<void>(resolve => {
    tellEnded = resolve;
  });
  const removers: (() => void)[] = [];
  const handle = serveStdio(
    ({ era }) => {
      const { server, subscribed, hear } = createServer(parts, era, principal, { revisions: [...STDIO_REVISIONS] });
      // In the newer era the SDK itself picks what the client listens to.
      const remove = news.add({
        updated: uri => {
          if (era !== 'modern' && !subscribed.has(uri)) return;
          parts.tally.notifications.add(['resource_updated']);
          server.sendResourceUpdated({ uri }).catch(() => undefined);
        },
        listChanged: (list, roles) => {
          if (roles.has(principal.role)) tellListChanged(server, list, parts.tally);
        },
      });
      const stopHearing = parts.notices.add(hear);
      const removeBoth = (): void => {
        remove();
        stopHearing();
      };
      removers.push(removeBoth);
      server.onclose = removeBoth;
      return server;
    },
    { transport, onerror: error => parts.log.debug({ err: error }, 'a message on standard input could not be understood') },
  );
  const afterServer = transport.onclose;
  transport.onclose = () => {
    afterServer?.();
    for (const remove of removers) remove();
    tellEnded();
  };
  return { ended, close: () => handle.close() };
}
