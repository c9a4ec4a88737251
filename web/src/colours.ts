// Colours of slices: that of the category, a little lighter or darker by name.

export class Colours {
  private readonly base: number[];
  private readonly shade: Float32Array;
  private readonly dark: boolean[];

  /** What belongs to no category has the colour of the one with the number `other`. */
  constructor(categories: string[], labels: [string, string, string][], private readonly other = 0) {
    this.base = categories.map((colour) => parseInt(colour.slice(1), 16));
    this.dark = this.base.map((colour) => luminance(colour) < 0.45);
    // Without a name, the colour is exactly that of the legend.
    this.shade = Float32Array.from(labels, ([name]) => (name ? 0.86 + (hash(name) % 29) / 100 : 1));
  }

  of(category: number, label: number): number {
    const colour = this.base[category < 0 ? this.other : category];
    const shade = this.shade[label] ?? 1;
    const channel = (bits: number) => Math.min(255, Math.round(((colour >> bits) & 255) * shade));
    return (channel(16) << 16) | (channel(8) << 8) | channel(0);
  }

  plain(category: number): number {
    return this.base[category];
  }

  /** Colour of text on a category. */
  textOn(category: number): string {
    return this.dark[category < 0 ? this.other : category] ? "#fff" : "#101418";
  }
}

function hash(text: string): number {
  let value = 0;
  for (let i = 0; i < text.length; i++) value = (value * 31 + text.charCodeAt(i)) >>> 0;
  return value;
}

/** Relative luminance, 0..1 (WCAG 2.2, without linearisation: only dark and light matter). */
function luminance(colour: number): number {
  const [red, green, blue] = [colour >> 16, (colour >> 8) & 255, colour & 255];
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
}
