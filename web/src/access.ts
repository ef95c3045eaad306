// Token for the server. The browser keeps the token until the tab is closed.

const KEY = 'seiner-token';

/** Asks for a token. `isRejected` is true if the server rejected the present one. */
type Ask = (isRejected: boolean) => void;
let ask: Ask | null = null;

/** Returns the headers of a request. They are empty without a token. */
export function headers(): Record<string, string> {
  const token = sessionStorage.getItem(KEY);
  return token === null ? {} : { authorization: `Bearer ${token}` };
}

/** Returns true if this tab has a token. */
export function hasToken(): boolean {
  return sessionStorage.getItem(KEY) !== null;
}

/** Keeps a token for this tab. Spaces around the token are removed. */
export function keep(token: string): void {
  sessionStorage.setItem(KEY, token.trim());
}

/** Sets the function that asks for a token. */
export function onDenied(asks: Ask): void {
  ask = asks;
}

/** Asks for a token, once, because the server needs one. */
export function denied(): void {
  const asks = ask;
  ask = null;
  const isRejected = sessionStorage.getItem(KEY) !== null;
  sessionStorage.removeItem(KEY);
  asks?.(isRejected);
}
