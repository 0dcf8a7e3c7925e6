import { Counts } from '../model/counts.ts';

/** What clients did, counted since the start. */
export class Tally {
  /** By tool and outcome: ok, refused, failed, input_required, cancelled, unknown. */
  readonly calls = new Counts();
  /** By kind. */
  readonly notifications = new Counts();
}
