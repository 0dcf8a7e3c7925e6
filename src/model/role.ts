/** What somebody may do: each role includes the ones before it. */
export const ROLES = ['viewer', 'operator', 'engineer'] as const;
export type Role = (typeof ROLES)[number];

export function mayActAs(has: Role, needs: Role): boolean {
  return ROLES.indexOf(has) >= ROLES.indexOf(needs);
}
