// Card of an empty store: how to write the first line.

import { h } from './dom';

/** Returns the card. `sensors` is true if the host's own sensors have already written. */
export function firstLine(sensors = false): HTMLElement {
  const command = `curl -i '${location.origin}/write' --data-binary 'weather,station=harbour temperature=8.4,wind=5.1'`;
  const copy = h('button', { type: 'button', class: 'small' }, 'Copy');
  copy.addEventListener('click', () => {
    void navigator.clipboard?.writeText(command).then(() => {
      copy.textContent = 'Copied';
      window.setTimeout(() => (copy.textContent = 'Copy'), 1500);
    });
  });
  return h(
    'section',
    { class: 'card welcome', 'aria-label': 'No data yet' },
    h('h2', {}, sensors ? 'Only this machine’s own sensors yet' : 'No data yet'),
    h('p', {}, 'The store is open and waits for your first sample. Write one in line protocol:'),
    h('div', { class: 'command' }, h('code', {}, command), copy),
    h('p', { class: 'faint' }, 'Clients of InfluxDB can write to this address.'),
  );
}
