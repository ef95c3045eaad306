// Overlay with the list of keys.

import { h } from './dom';

const KEYS: [keys: string[], what: string][] = [
  [['/'], 'Search a measurement'],
  [['←', '→'], 'Earlier, later'],
  [['+', '−'], 'Zoom in, zoom out'],
  [['Esc'], 'Back to the interval before the zoom'],
  [['f'], 'Follow: repeat the query as time passes'],
  [['r'], 'Reload'],
  [['t'], 'Light or dark'],
  [['?'], 'This help'],
];

const POINTER: [gesture: string, what: string][] = [
  ['Drag', 'Zoom to the interval'],
  ['Wheel', 'Zoom at the pointer'],
  ['Shift and drag', 'Move'],
  ['Double click', 'Back to the interval before'],
  ['One finger, two fingers', 'Move, zoom'],
];

export function helpOverlay(): HTMLDialogElement {
  const close = h('button', { type: 'button', class: 'small' }, 'Close');
  const row = (head: (Node | string)[], what: string): HTMLElement => h('tr', {}, h('th', { scope: 'row' }, ...head), h('td', {}, what));
  const dialog = h(
    'dialog',
    { class: 'help', 'aria-labelledby': 'help-title' },
    h('h2', { id: 'help-title' }, 'Keys and gestures'),
    h('table', {}, ...KEYS.map(([keys, what]) => row(keys.map((key) => h('kbd', {}, key)), what))),
    h('h3', {}, 'On a chart'),
    h('table', {}, ...POINTER.map(([gesture, what]) => row([gesture], what))),
    h('p', { class: 'faint' }, 'The address contains the whole view: copy it to share the view.'),
    close,
  );
  close.addEventListener('click', () => dialog.close());
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
  return dialog;
}
