// Requests for dashboards. A change sends the revision that it replaces, so that it cannot overwrite a newer one.

import * as api from '../api';
import { clean, type DashboardDocument } from './document';

const PATH = '/api/v1/dashboards';

export interface Listed {
  name: string;
  revision: number;
  panels: number;
  bytes: number;
}

export interface Stored {
  document: DashboardDocument;
  /** ETag. */
  revision: string;
}

const path = (name: string): string => `${PATH}/${encodeURIComponent(name)}`;

export async function list(signal?: AbortSignal): Promise<Listed[]> {
  const response = await api.send('GET', PATH, { signal });
  return ((await response.json()) as { dashboards: Listed[] }).dashboards;
}

export async function read(name: string, signal?: AbortSignal): Promise<Stored> {
  const response = await api.send('GET', path(name), { signal });
  return { document: clean(await response.json()), revision: response.headers.get('etag') ?? '*' };
}

/** Stores a document in place of a revision; null if there must be none. Returns the new revision. */
export async function save(name: string, document: DashboardDocument, revision: string | null): Promise<string> {
  const headers: Record<string, string> = { 'content-type': 'application/json', ...(revision === null ? {} : { 'if-match': revision }) };
  try {
    const response = await api.send('PUT', path(name), { body: JSON.stringify(document), headers });
    return response.headers.get('etag') ?? '*';
  } catch (error) {
    // The remedy of the server is one for programs.
    if (revision === null && isConflict(error) && /exists/.test((error as Error).message)) throw new api.ServerError(`There is a dashboard ${name} already. Choose another name.`, 409);
    throw error;
  }
}

export async function remove(name: string, revision: string): Promise<void> {
  await api.send('DELETE', path(name), { headers: { 'if-match': revision } });
}

/** Returns true if an error states that somebody else made a change. */
export const isConflict = (error: unknown): boolean => error instanceof api.ServerError && (error.status === 409 || error.status === 412);
