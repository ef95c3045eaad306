// Dialog that asks for a token.

import * as access from './access';
import { h } from './dom';

/** Opens the dialog. `isRejected` is true if the server rejected the last token. */
export function loginDialog(isRejected: boolean): void {
  const input = h('input', { type: 'password', id: 'token', autocomplete: 'current-password', required: true, spellcheck: 'false' });
  const form = h(
    'form',
    { class: 'login' },
    h('label', { for: 'token' }, 'Token'),
    input,
    h('button', { type: 'submit', class: 'small' }, 'Continue'),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    access.keep(input.value);
    location.reload();
  });
  const dialog = h(
    'dialog',
    { class: 'help', 'aria-labelledby': 'login-title' },
    h('h2', { id: 'login-title' }, 'This server needs a token'),
    h('p', {}, isRejected ? 'The server rejected the token. Enter another one.' : 'The browser keeps the token until this tab is closed.'),
    form,
    h('p', { class: 'faint' }, 'This command creates a token for reading: ', h('code', {}, 'seiner token create NAME --scope read')),
  );
  document.body.append(dialog);
  dialog.showModal();
}
