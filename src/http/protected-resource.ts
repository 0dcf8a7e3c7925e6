import type { HttpSettings } from '../model/access.ts';

const WELL_KNOWN = '/.well-known/oauth-protected-resource';

/** RFC 9728, 3.1: the well-known name stands between host and path. */
const placeOf = (path: string): string => `${WELL_KNOWN}${path === '/' ? '' : path}`;

/**
 * What tells a client where to get a token: the metadata of RFC 9728 and the challenge that leads to it (MCP 2025-11-25,
 * authorization). Undefined where no authorization server makes tokens.
 */
export function protectedResource({
  jwt,
  path,
}: HttpSettings): { readonly paths: readonly string[]; readonly challenge: string; readonly metadata: object } | undefined {
  if (jwt === undefined) return undefined;
  // Some servers make tokens for names such as api://bridge, which say nothing of where it is.
  const address = /^https?:/i.test(jwt.audience) && URL.canParse(jwt.audience) ? new URL(jwt.audience) : undefined;
  const places = [placeOf(path), ...(address === undefined ? [] : [placeOf(address.pathname)])];
  return {
    paths: [...new Set([WELL_KNOWN, ...places])],
    challenge: address === undefined ? 'Bearer' : `Bearer resource_metadata="${address.origin}${placeOf(address.pathname)}"`,
    metadata: {
      resource: jwt.audience,
      authorization_servers: [jwt.issuer],
      bearer_methods_supported: ['header'],
    },
  };
}
