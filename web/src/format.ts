// Numbers as people read them; the same forms as in the rest of the page.

const UNITS: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

export function duration(ns: number): string {
  const [scale, unit] = UNITS.find(([size]) => Math.abs(ns) >= size) ?? [1, "ns"];
  return `${digits(ns / scale)} ${unit}`;
}

export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (Math.abs(count) >= 1024 && power < units.length - 1) {
    count /= 1024;
    power++;
  }
  return `${digits(count)} ${units[power]}`;
}

/** A sampled value with its unit; the same as in the table of the page. */
export function amount(value: number, unit: string): string {
  if (unit === "bytes") return bytes(value);
  if (unit === "bytes/s") return `${bytes(value)}/s`;
  const number = Number.isInteger(value)
    ? value.toLocaleString("en") : Number(value.toPrecision(3)).toLocaleString("en");
  return `${number} ${unit}`.trimEnd();
}

export function share(part: number): string {
  return `${digits(100 * part)} %`;
}

/** Three significant digits. */
function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toString();
  return value.toFixed(size >= 10 ? 1 : 2);
}

/** Distance between marks of the axis: 1, 2 or 5 times a power of ten. */
export function tick(nsPerPixel: number, pixels = 110): number {
  const least = nsPerPixel * pixels;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((m) => m * power).find((size) => size >= least)!;
}

/** A time on the axis, exact to the distance of the marks. */
export function axisTime(ns: number, step: number): string {
  const [scale, unit] = UNITS.find(([size]) => step >= size) ?? [1, "ns"];
  const [whole, wholeUnit] = ns >= 1e9 && scale < 1e9 ? [1e9, "s"] : [scale, unit];
  const places = Math.max(0, Math.ceil(Math.log10(whole / step)));
  return `${(ns / whole).toFixed(Math.min(places, 9))} ${wholeUnit}`;
}
