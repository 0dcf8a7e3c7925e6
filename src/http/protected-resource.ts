import type { HttpSettings } from '../model/access.ts';

const WELL_KNOWN = '/.well-known/oauth-protected-resource';

/**
 * What tells a client where to get a token: the metadata of RFC 9728 and the challenge that leads to it (MCP 2025-11-25,
 * authorization). Undefined where no authorization server makes tokens.
 */
export function protectedResource({
  jwt,
  path,
}: HttpSettings): { readonly paths: readonly string[]; readonly challenge: string; readonly metadata: object } | undefined {
  if (jwt === undefined) return undefined;
  // RFC 9728, 3.1: the well-known name stands between host and path.
  const at = `${WELL_KNOWN}${path === '/' ? '' : path}`;
  const address = URL.canParse(jwt.audience) ? new URL(jwt.audience) : undefined;
  const own = address === undefined ? undefined : `${address.origin}${WELL_KNOWN}${address.pathname === '/' ? '' : address.pathname}`;
  const inAudience = own === undefined ? [] : [new URL(own).pathname];
  return {
    paths: [...new Set([WELL_KNOWN, at, ...inAudience])],
    challenge: own === undefined || address?.origin === 'null' ? 'Bearer' : `Bearer resource_metadata="${own}"`,
    metadata: {
      resource: jwt.audience,
      authorization_servers: [jwt.issuer],
      bearer_methods_supported: ['header'],
    },
  };
}
