// Dialog that adds the present view of the explorer to a dashboard.

import { h, put } from '../dom';
import { write, type ExplorerState } from '../location';
import * as client from './client';
import { emptyDashboard, nameFault, panelOf, SIZES, titleOf, writeAsText, type Size } from './document';

/** Choice of a dashboard that does not exist yet. No dashboard has this name. */
const NEW = '/';

/** Adds a panel. If somebody else changes the dashboard at the same time, the panel is added to the newer one. */
export async function add(name: string, isNew: boolean, state: ExplorerState, title: string, size: Size): Promise<void> {
  const panel = panelOf(state, title, size);
  if (isNew) {
    await client.save(name, { ...emptyDashboard(), interval: writeAsText(state.interval), panels: [panel] }, null);
    return;
  }
  for (let attempt = 0; ; attempt += 1) {
    const { document, revision } = await client.read(name);
    try {
      await client.save(name, { ...document, panels: [...document.panels, panel] }, revision);
      return;
    } catch (error) {
      if (attempt >= 2 || !client.isConflict(error)) throw error;
    }
  }
}

/** Opens the dialog. */
export async function savePanel(state: ExplorerState): Promise<void> {
  const title = h('input', { type: 'text', id: 'panel-title', maxlength: 200, value: titleOf(state), spellcheck: 'false' });
  const choice = h('select', { id: 'panel-dashboard', disabled: true }, h('option', { value: NEW }, 'New dashboard…'));
  const name = h('input', { type: 'text', id: 'panel-name', maxlength: 100, spellcheck: 'false', placeholder: 'Kitchen' });
  const nameRow = h('label', { for: 'panel-name' }, 'Name', name);
  const size = h('select', { id: 'panel-size' }, ...SIZES.map((one) => h('option', { value: one.name, selected: one.name === 'medium' }, one.title)));
  const message = h('p', { class: 'query-error', role: 'alert' });
  const submit = h('button', { type: 'submit', class: 'small' }, 'Save');
  const cancel = h('button', { type: 'button', class: 'small' }, 'Cancel');
  const form = h(
    'form',
    { class: 'panel-form' },
    h('label', { for: 'panel-title' }, 'Title', title),
    h('label', { for: 'panel-dashboard' }, 'Dashboard', choice),
    nameRow,
    h('label', { for: 'panel-size' }, 'Width', size),
    message,
    h('div', { class: 'buttons' }, submit, cancel),
  );
  const dialog = h('dialog', { class: 'help', 'aria-labelledby': 'panel-heading' }, h('h2', { id: 'panel-heading' }, 'Save as panel'), form);
  const isNew = (): boolean => choice.value === NEW;
  const sayFault = (error: unknown): void => put(message, error instanceof Error ? error.message : String(error));
  choice.addEventListener('change', () => (nameRow.hidden = !isNew()));
  cancel.addEventListener('click', () => dialog.close());
  dialog.addEventListener('close', () => dialog.remove());
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const target = isNew() ? name.value.trim() : choice.value;
    const fault = isNew() ? nameFault(target) : null;
    if (fault !== null) {
      put(message, fault);
      return;
    }
    submit.disabled = true;
    add(target, isNew(), state, title.value.trim(), size.value as Size)
      .then(() => {
        const close = h('button', { type: 'button', class: 'small' }, 'Close');
        close.addEventListener('click', () => dialog.close());
        const link = h('a', { href: write({ page: 'dashboard', view: { name: target, interval: null, refresh: null } }) }, target);
        link.addEventListener('click', () => dialog.close());
        put(form, h('p', { role: 'status' }, 'The panel is saved in ', link, '.'), h('div', { class: 'buttons' }, close));
        link.focus();
      })
      .catch(sayFault)
      .finally(() => (submit.disabled = false));
  });
  document.body.append(dialog);
  dialog.showModal();
  title.select();
  try {
    const found = await client.list();
    choice.prepend(...found.map((one) => h('option', { value: one.name }, one.name)));
    choice.value = found[0]?.name ?? NEW;
  } catch (error) {
    sayFault(error);
  }
  choice.disabled = false;
  nameRow.hidden = !isNew();
}
