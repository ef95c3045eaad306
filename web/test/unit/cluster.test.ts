import { expect, test } from 'vitest';
import type { Port } from '../../src/api';
import { nodesNote, portCells } from '../../src/overview/cluster';

const port: Port = {
  name: 'a',
  address: '10.0.0.1:7670',
  samples_per_second: 1200,
  unflushed_rows: 34_000,
  handover_lag_s: 90,
  weight: 0.5,
  trouble: null,
  is_this: true,
};

test('a port shows its load and its state', () => {
  const [name, address, , , lag, , state] = portCells(port);
  expect(name).toBe('a (this one)');
  expect(address).toBe('10.0.0.1:7670');
  expect(lag).toContain('ago');
  expect(state).toBe('takes writes');
  expect(portCells({ ...port, weight: 0 })[6]).toBe('full');
  expect(portCells({ ...port, trouble: 'no replica answers' })[6]).toBe('no replica answers');
});

test('nodes that do not answer are named', () => {
  const up = { address: '10.0.0.1:9042', is_up: true };
  expect(nodesNote([up])).toBe('1 node of the distributed store, all reachable');
  expect(nodesNote([up, { address: '10.0.0.2:9042', is_up: false }])).toContain('not reachable: 10.0.0.2:9042');
});
