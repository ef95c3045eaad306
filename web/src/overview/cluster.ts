// Ports and nodes of the cluster, if the server is a port of one.

import * as api from '../api';
import { body, h, put, table } from '../dom';
import * as format from '../format';

const POLL_MS = 2000;
const HEADS = ['Port', 'Address', 'Samples/s', 'Rows not handed over', 'Last handover', 'Weight', 'State'];

/** Returns the cells of a port: name, address, rate, rows, time since the handover, weight, state. */
export function portCells(port: api.Port): string[] {
  return [
    port.is_this ? `${port.name} (this one)` : port.name,
    port.address,
    format.si(port.samples_per_second),
    format.count(port.unflushed_rows),
    `${format.duration(port.handover_lag_s * 1e9)} ago`,
    format.digits(port.weight),
    port.trouble ?? (port.weight > 0 ? 'takes writes' : 'full'),
  ];
}

/** Returns a sentence about the nodes of the distributed store. */
export function nodesNote(nodes: readonly api.ClusterNode[]): string {
  const down = nodes.filter((node) => !node.is_up).map((node) => node.address);
  const all = `${format.count(nodes.length)} node${nodes.length === 1 ? '' : 's'} of the distributed store`;
  return down.length === 0 ? `${all}, all reachable` : `${all}; not reachable: ${down.join(', ')}`;
}

/** Card with the ports. It is empty until the status has a cluster. */
export class ClusterCard {
  readonly root = h('div', { class: 'cluster' });
  private shown = '';
  private asked = 0;

  /** Updates the card from a status, and asks for the ports every two seconds. */
  async show(cluster: api.Cluster | null | undefined, signal?: AbortSignal): Promise<void> {
    if (!cluster) return;
    const now = Date.now();
    if (now - this.asked < POLL_MS) return;
    this.asked = now;
    const ports = await api.ports(signal).catch(() => null);
    if (ports !== null) this.draw(ports, cluster);
  }

  private draw(ports: readonly api.Port[], cluster: api.Cluster): void {
    const rows = ports.map(portCells);
    const notes = [
      `Keyspace ${cluster.keyspace}`,
      nodesNote(cluster.nodes),
      `${format.count(cluster.samples_handed_over)} samples handed over by this port in ${format.bytes(cluster.bundle_bytes)}`,
      cluster.takeovers > 0 ? `${format.count(cluster.takeovers)} journals of failed ports finished` : '',
    ].filter((note) => note !== '');
    const text = JSON.stringify([rows, notes]);
    // Text in a rebuilt table cannot be selected.
    if (text === this.shown) return;
    this.shown = text;
    const foot = h('p', { class: 'foot' }, notes.join(' · '));
    put(this.root, h('section', { class: 'card', 'aria-label': 'Cluster' }, h('h2', {}, 'Cluster'), table('Ports', HEADS, body(rows)), foot));
  }
}
