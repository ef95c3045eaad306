// Choice of the texts that are drawn as events over the charts.

import * as api from '../api';
import { h } from '../dom';
import type { ExplorerState } from '../location';
import { format as write } from '../selector';
import { Picker } from './picker';

/** Measurement with the documents of dashboards, which are no events. */
const DASHBOARDS = 'seiner_dashboard';

/** Returns the picker of a series of texts and, if one is chosen, a button that drops it. */
export function eventControls(state: ExplorerState, change: (state: ExplorerState) => void): HTMLElement[] {
  const { events } = state;
  const face = events === null ? 'Events…' : `Events: ${events.select} ${events.field}`;
  const picker = new Picker({
    label: 'Texts to draw as events',
    face,
    class: events === null ? 'quiet' : '',
    multiple: false,
    chosen: events === null ? [] : [`${events.select} ${events.field}`],
    load: async (_, signal) => ({ choices: [...(await sources(signal)).keys()].map((value) => ({ value })) }),
    onChoose: ([chosen]) => {
      const source = known.get(chosen!);
      if (source !== undefined) change({ ...state, events: source });
    },
  });
  let known = new Map<string, NonNullable<ExplorerState['events']>>();
  const sources = async (signal: AbortSignal): Promise<typeof known> => {
    const summaries = await api.summary('', signal);
    const texts = summaries.filter((one) => one.measurement !== DASHBOARDS).flatMap(({ measurement, fields }) => fields.filter((field) => field.type === 'string').map((field) => ({ select: write({ measurement, filters: [] }), field: field.name })));
    return (known = new Map(texts.map((one) => [`${one.select} ${one.field}`, one])));
  };
  if (events === null) return [picker.button];
  const drop = h('button', { type: 'button', class: 'drop', 'aria-label': 'Drop the events' }, '×');
  drop.addEventListener('click', () => change({ ...state, events: null }));
  return [h('span', { class: 'chip' }, picker.button, drop)];
}
