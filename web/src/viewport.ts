// The part of the timeline that is visible, and its movement.

export class Viewport {
  from: number;
  to: number;
  width = 1;

  constructor(private readonly spanNs: number) {
    this.from = 0;
    this.to = Math.max(spanNs, 1);
  }

  get nsPerPixel(): number {
    return (this.to - this.from) / this.width;
  }

  x(time: number): number {
    return (time - this.from) / this.nsPerPixel;
  }

  time(x: number): number {
    return this.from + x * this.nsPerPixel;
  }

  /** Zoom around a position; factors below 1 zoom in. */
  zoom(factor: number, x = this.width / 2): void {
    const around = this.time(x);
    const length = Math.min(Math.max((this.to - this.from) * factor, 100), this.spanNs || 1);
    this.show(around - (x / this.width) * length, length);
  }

  pan(pixels: number): void {
    this.show(this.from + pixels * this.nsPerPixel, this.to - this.from);
  }

  /** Show a range, with a margin on both sides. */
  fit(from: number, to: number, margin = 0.1): void {
    const length = Math.max(to - from, 100);
    this.show(from - margin * length, length * (1 + 2 * margin));
  }

  private show(from: number, length: number): void {
    const whole = Math.max(this.spanNs, 1);
    const shown = Math.min(length, whole);
    this.from = Math.min(Math.max(from, 0), whole - shown);
    this.to = this.from + shown;
  }
}
