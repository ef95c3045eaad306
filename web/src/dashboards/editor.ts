// Controls of the editor of a dashboard: title, size and place of a panel.

import { h, put } from '../dom';
import { SIZES, type PanelDocument, type Size } from './document';

export interface PanelEdits {
  change: (panel: PanelDocument) => void;
  move: (by: number) => void;
  remove: () => void;
}

/** Fills the place for the controls of a panel. */
export function panelControls(place: HTMLElement, panel: PanelDocument, isFirst: boolean, isLast: boolean, edits: PanelEdits): void {
  const named = panel.title === '' ? 'the panel' : panel.title;
  const title = h('input', { type: 'text', value: panel.title, maxlength: 200, 'aria-label': `Title of ${named}`, spellcheck: 'false' });
  title.addEventListener('change', () => edits.change({ ...panel, title: title.value.trim() }));
  const size = h('select', { 'aria-label': `Width of ${named}` }, ...SIZES.map((one) => h('option', { value: one.name, selected: one.name === panel.size }, one.title)));
  size.addEventListener('change', () => edits.change({ ...panel, size: size.value as Size }));
  const button = (face: string, label: string, disabled: boolean, act: () => void): HTMLElement => {
    const made = h('button', { type: 'button', class: 'small', title: label, 'aria-label': label, disabled }, face);
    made.addEventListener('click', act);
    return made;
  };
  put(place, title, size, button('↑', `Move ${named} forward`, isFirst, () => edits.move(-1)), button('↓', `Move ${named} back`, isLast, () => edits.move(1)), button('Remove', `Remove ${named}`, false, edits.remove));
}
