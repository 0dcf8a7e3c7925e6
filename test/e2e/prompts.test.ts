import { describe, expect, test } from 'vitest';
import { MemoryUnit } from '../../simulators/modbus-server.ts';
import { deviceMap, REVISIONS, type Revision, readSamples, TestBridge, until } from '../support/bridge.ts';
import { startPlc } from '../support/plc.ts';

async function open(revision: Revision, more: object = {}) {
  const plc = await startPlc(new MemoryUnit().set('holding', 0, 7));
  const bridge = await TestBridge.start(
    deviceMap(plc.port, { level: { holding: 0, unit: '%' } }, { device: { description: 'Tank 1' }, ...more }),
  );
  const client = await bridge.client(revision);
  await until(
    () => readSamples(client, ['d.level']),
    ([sample]) => sample?.quality === 'good',
  );
  return { client, plc };
}

type Message = {
  readonly content: { readonly type: string; readonly text?: string; readonly resource?: { readonly uri: string; readonly text?: string } };
};

describe.each(REVISIONS)('prompts, for a client of %s', revision => {
  test('diagnose_device has the samples of the device and the state of the bridge with it', async () => {
    const { client } = await open(revision);
    expect((await client.listPrompts()).prompts.map(prompt => [prompt.name, prompt.arguments?.map(one => one.name)])).toEqual([
      ['diagnose_device', ['device']],
      ['shift_report', ['since']],
    ]);
    const { messages } = await client.getPrompt({ name: 'diagnose_device', arguments: { device: 'd' } });
    const [task, samples, status] = messages as unknown as Message[];
    expect(task?.content.text).toMatch(/^Diagnose the device d \(Tank 1\)\. .*read_history.*Write nothing\./);
    expect(samples?.content.resource?.uri).toBe('plant://d');
    expect(JSON.parse(samples?.content.resource?.text ?? '')).toMatchObject({
      device: 'd',
      samples: [{ point: 'd.level', value: 7, unit: '%' }],
    });
    expect(JSON.parse(status?.content.resource?.text ?? '')).toMatchObject({ connections: [{ name: 'plc', state: 'connected' }] });
  });

  test('shift_report begins with what there is now', async () => {
    const { client } = await open(revision, { history: 0 });
    const { messages } = await client.getPrompt({ name: 'shift_report', arguments: { since: '-8h' } });
    expect((messages as unknown as Message[]).map(message => message.content.resource?.uri)).toEqual([
      undefined,
      'plant://status',
      'plant://d',
    ]);
    expect((messages as unknown as Message[])[0]?.content.text).toContain('This bridge keeps no past values');
  });

  test.each([
    ['diagnose_device', { device: 'dd' }, 'there is no device "dd"; near it: d'],
    ['diagnose_device', {}, 'device is missing'],
    ['shift_report', { since: 'monday' }, 'since: a time such as 2026-01-31T08:00:00Z or -15m is expected, got "monday"'],
    ['shift_report', { since: '2999-01-01T00:00:00Z' }, 'since: expected a time that has passed'],
    ['nothing', {}, 'Unknown prompt: "nothing"'],
  ])('%s %j: refused with what would be accepted', async (name, args, message) => {
    const { client } = await open(revision);
    await expect(client.getPrompt({ name, arguments: args as Record<string, string> })).rejects.toMatchObject({
      code: -32602,
      message: expect.stringContaining(message),
    });
  });

  test('arguments are completed', async () => {
    const { client } = await open(revision);
    const complete = async (name: string, argument: string, value: string) =>
      (await client.complete({ ref: { type: 'ref/prompt', name }, argument: { name: argument, value } })).completion.values;
    expect(await complete('diagnose_device', 'device', '')).toEqual(['d']);
    expect(await complete('shift_report', 'since', '-1')).toEqual(['-12h', '-1h']);
    await expect(complete('nothing', 'x', '')).rejects.toMatchObject({ code: -32602 });
  });
});

describe.each(['2025-06-18', '2025-11-25'] as const)('log messages, for a client of %s', revision => {
  test('none before it asks; then what is as severe as it asks for', async () => {
    const { client, plc } = await open(revision);
    const heard: { level: string; logger?: string | undefined; data: unknown }[] = [];
    client.setNotificationHandler('notifications/message', ({ params }) => void heard.push(params));
    const { port } = plc;
    const down = () =>
      until(
        () => readSamples(client, ['d.level']),
        ([sample]) => sample?.quality === 'bad',
      );
    const up = () =>
      until(
        () => readSamples(client, ['d.level']),
        ([sample]) => sample?.quality === 'good',
      );
    await plc.stop();
    await down();
    await plc.start(port);
    await up();
    expect(heard).toEqual([]);
    await client.setLoggingLevel('warning');
    await plc.stop();
    await down();
    const [first] = await until(
      () => heard,
      all => all.length > 0,
    );
    expect(first).toMatchObject({ level: 'warning', logger: 'plc', data: expect.stringMatching(/connection|lost/i) });
    await client.setLoggingLevel('emergency');
    await plc.start(port);
    await up();
    expect(heard.every(one => one.level === 'warning')).toBe(true);
  });
});
