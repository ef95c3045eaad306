// Logo: a seiner with its net below the water line.

import { svg } from './dom';

export function logo(): SVGElement {
  return svg(
    'svg',
    { viewBox: '0 0 32 32', width: 26, height: 26, 'aria-hidden': 'true', class: 'logo' },
    svg('path', { class: 'hull', d: 'M4.500 13.500h23l-2.400 4.300a2 2 0 0 1-1.750 1H8.650a2 2 0 0 1-1.750-1z' }),
    svg('path', { class: 'rig', d: 'M10.500 13.200V8.500h6l2 4.700M21.500 13V4.500l5 8.600' }),
    svg('path', { class: 'net', d: 'M6.500 21.500c1 5 4.800 7.800 9.500 7.800s8.500-2.800 9.500-7.800M10.800 21.500c.5 3.200 2.400 6 5.200 7.600M21.200 21.500c-.5 3.200-2.400 6-5.200 7.600M8 25.300h16' }),
  );
}
