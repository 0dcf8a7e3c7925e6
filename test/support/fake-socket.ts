import { EventEmitter } from 'node:events';

/** A socket without a network: the test hears what is written and says what comes back. */
export class FakeSocket extends EventEmitter {
  readyState: 'opening' | 'open' | 'closed' = 'opening';
  onWrite: (bytes: Buffer) => void = () => undefined;

  open(): void {
    this.readyState = 'open';
    this.emit('connect');
  }

  write(bytes: Buffer): boolean {
    this.onWrite(bytes);
    return true;
  }

  destroy(error?: Error): void {
    if (this.readyState === 'closed') return;
    this.readyState = 'closed';
    if (error !== undefined) this.emit('error', error);
    this.emit('close');
  }

  destroySoon(): void {
    this.destroy();
  }

  resetAndDestroy(): void {
    this.destroy();
  }
}
