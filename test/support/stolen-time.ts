import { onTestFinished } from 'vitest';

const EVERY = 10;

/**
 * Measures how long this process had work and no processor, because the machine was busy with others. What the process
 * spends itself does not count, so code that blocks it is not excused by it.
 * @returns the time so far, ms
 */
export function stolenTime(): () => number {
  let stolen = 0;
  let last = performance.now();
  let spent = process.cpuUsage();
  const timer = setInterval(() => {
    const now = performance.now();
    const { user, system } = process.cpuUsage(spent);
    // Less than two turns is what any timer is late by.
    if (now - last > 2 * EVERY) stolen += Math.max(0, now - last - EVERY - (user + system) / 1000);
    last = now;
    spent = process.cpuUsage();
  }, EVERY);
  onTestFinished(() => clearInterval(timer));
  return () => stolen;
}
