// Painting without a graphics card: the script writes the pixels, the browser only shows them.

import type { Painter, Rectangles } from "./rectangles.ts";

/**
 * Tens of thousands of rectangles take a few ms; a renderer in software needs 50 to 100 ms for
 * them. The rest of a frame is what the browser needs to show the canvas. An opaque one takes least,
 * and without `willReadFrequently`, which keeps the pixels away from where the page is composed.
 */
export class FlatPainter implements Painter {
  private readonly context: CanvasRenderingContext2D;
  private image = new ImageData(1, 1);

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d", { alpha: false })!;
  }

  paint(
    rectangles: Rectangles, width: number, height: number, scale: number, background: number,
  ): CanvasRenderingContext2D {
    const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.canvas.width !== wide) this.canvas.width = wide;
    if (this.canvas.height !== high) this.canvas.height = high;
    if (this.image.width !== wide || this.image.height !== high) {
      this.image = new ImageData(wide, high);
    }
    fillPixels(new Uint32Array(this.image.data.buffer), rectangles, wide, high, scale, background);
    this.context.putImageData(this.image, 0, 0);
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    return this.context;
  }
}

/**
 * Write rectangles as pixels, whose bytes are red, green, blue and opacity.
 *
 * The slices of a lane have one top and bottom. Where they touch, only their first line is written,
 * and the others are copies of it.
 */
export function fillPixels(
  pixels: Uint32Array, rectangles: Rectangles, wide: number, high: number, scale: number,
  background: number,
): void {
  const { places, count } = rectangles;
  const colours = new Uint32Array(rectangles.colours.buffer);
  const behind = packed(background);
  pixels.fill(behind);
  let [first, end, upper, lower] = [0, 0, 0, 0];
  const copyLine = () => {
    for (let y = upper + 1; y < lower; y++) {
      pixels.copyWithin(y * wide + first, upper * wide + first, upper * wide + end);
    }
  };
  for (let i = 0; i < 4 * count; i += 4) {
    const begin = Math.round(places[i] * scale);
    const left = Math.max(begin, 0);
    const right = Math.min(
      Math.max(Math.round((places[i] + places[i + 2]) * scale), begin + 1), wide);
    const top = Math.max(Math.round(places[i + 1] * scale), 0);
    const bottom = Math.min(Math.round((places[i + 1] + places[i + 3]) * scale), high);
    if (top >= bottom || left >= right) continue;
    if (top !== upper || bottom !== lower || left < first || left > end) {
      copyLine();
      [first, end, upper, lower] = [left, left, top, bottom];
    }
    blend(pixels, top * wide + left, top * wide + right, colours[i >> 2], behind);
    if (right > end) end = right;
  }
  copyLine();
}

/** 0xRRGGBB as an opaque pixel. */
function packed(colour: number): number {
  const [red, green, blue] = [colour >> 16, (colour >> 8) & 255, colour & 255];
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Paint a run of opaque pixels over; most of them are still those of the background. */
function blend(
  pixels: Uint32Array, from: number, to: number, colour: number, behind: number,
): void {
  const opacity = colour >>> 24;
  if (opacity === 255) {
    for (let at = from; at < to; at++) pixels[at] = colour;
    return;
  }
  const usual = mixed(behind, colour, opacity);
  for (let at = from; at < to; at++) {
    const below = pixels[at];
    pixels[at] = below === behind ? usual : mixed(below, colour, opacity);
  }
}

/** An opaque pixel beneath a colour; two of its channels are computed at once. */
function mixed(below: number, above: number, opacity: number): number {
  const share = opacity + (opacity >> 7);
  const rest = 256 - share;
  const outer = ((below & 0xff00ff) * rest + (above & 0xff00ff) * share) >>> 8;
  const inner = ((below & 0xff00) * rest + (above & 0xff00) * share) >>> 8;
  return (0xff000000 | (outer & 0xff00ff) | (inner & 0xff00)) >>> 0;
}
