// Rectangles of one frame, in CSS pixels, and the two ways to paint them.

import { FlatPainter } from "./flat.ts";

export class Rectangles {
  count = 0;
  /** x, y, width, height of each. */
  places = new Float32Array(4 * 4096);
  /** Red, green, blue, opacity of each. */
  colours = new Uint8Array(4 * 4096);

  clear(): void {
    this.count = 0;
  }

  add(x: number, y: number, width: number, height: number, colour: number, opacity = 1): void {
    if (this.count * 4 === this.places.length) this.grow();
    const i = this.count++ * 4;
    this.places[i] = x;
    this.places[i + 1] = y;
    this.places[i + 2] = width;
    this.places[i + 3] = height;
    this.colours[i] = colour >> 16;
    this.colours[i + 1] = (colour >> 8) & 255;
    this.colours[i + 2] = colour & 255;
    this.colours[i + 3] = 255 * opacity;
  }

  private grow(): void {
    const { places, colours } = this;
    this.places = new Float32Array(2 * places.length);
    this.places.set(places);
    this.colours = new Uint8Array(2 * colours.length);
    this.colours.set(colours);
  }
}

export interface Painter {
  /**
   * Paint the rectangles, and return what texts are to be written on.
   *
   * @param background What is behind the rectangles, as 0xRRGGBB.
   */
  paint(
    rectangles: Rectangles, width: number, height: number, scale: number, background: number,
  ): CanvasRenderingContext2D;
}

/**
 * The fastest painter that the browser has: WebGL, unless the processor emulates it.
 *
 * @param canvas The canvas for rectangles.
 * @param above A canvas above it, for texts where both cannot share one.
 * @param forced "2d" or "webgl" to choose; for tests.
 */
export function painterFor(
  canvas: HTMLCanvasElement, above: HTMLCanvasElement, forced: string | null,
): Painter {
  const usesCard = forced ? forced === "webgl" : hasGraphicsCard();
  const gl = usesCard ? canvas.getContext("webgl2", { antialias: false, depth: false }) : null;
  return gl ? new GlPainter(canvas, above, gl) : new FlatPainter(canvas);
}

/** Whether WebGL is painted by a graphics card; `failIfMajorPerformanceCaveat` does not tell. */
function hasGraphicsCard(): boolean {
  const gl = document.createElement("canvas").getContext("webgl2");
  if (!gl) return false;
  const about = gl.getExtension("WEBGL_debug_renderer_info");
  const name = String(gl.getParameter(about ? about.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return !/swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
}

function resize(canvas: HTMLCanvasElement, width: number, height: number): void {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
}

const VERTEX = `#version 300 es
layout(location=0) in vec2 place;
layout(location=1) in vec4 colour;
uniform vec2 size;
out vec4 paint;
void main() {
  vec2 at = place / size * 2.0 - 1.0;
  gl_Position = vec4(at.x, -at.y, 0.0, 1.0);
  paint = vec4(colour.rgb * colour.a, colour.a);
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 paint;
out vec4 result;
void main() { result = paint; }`;

/** An empty canvas to write texts on. */
function cleared(canvas: HTMLCanvasElement, width: number, height: number, scale: number) {
  resize(canvas, Math.round(width * scale), Math.round(height * scale));
  const context = canvas.getContext("2d")!;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Bytes of a corner: x and y as floats, and four bytes of colour. */
const CORNER = 12;

/**
 * All rectangles in one call, as triangles: drivers that emulate instances paint them one by one.
 */
class GlPainter implements Painter {
  private readonly size: WebGLUniformLocation | null;
  private room = 0;
  private floats = new Float32Array(0);
  private words = new Uint32Array(0);

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly above: HTMLCanvasElement,
    private readonly gl: WebGL2RenderingContext,
  ) {
    const program = programOf(gl);
    gl.useProgram(program);
    this.size = gl.getUniformLocation(program, "size");
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 2, gl.FLOAT, false, CORNER, 0);
    gl.enableVertexAttribArray(1);
    gl.vertexAttribPointer(1, 4, gl.UNSIGNED_BYTE, true, CORNER, 8);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  paint(rectangles: Rectangles, width: number, height: number, scale: number) {
    const { gl } = this;
    resize(this.canvas, Math.round(width * scale), Math.round(height * scale));
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(this.size, width, height);
    this.makeRoom(rectangles.count);
    this.fillCorners(rectangles);
    const used = (rectangles.count * 4 * CORNER) / 4;
    gl.bufferData(gl.ARRAY_BUFFER, this.floats.subarray(0, used), gl.DYNAMIC_DRAW);
    gl.drawElements(gl.TRIANGLES, 6 * rectangles.count, gl.UNSIGNED_INT, 0);
    return cleared(this.above, width, height, scale);
  }

  /** Two triangles for each rectangle, of its four corners. */
  private makeRoom(count: number): void {
    if (count <= this.room) return;
    this.room = 2 ** Math.ceil(Math.log2(count));
    this.floats = new Float32Array((this.room * 4 * CORNER) / 4);
    this.words = new Uint32Array(this.floats.buffer);
    const indices = new Uint32Array(6 * this.room);
    for (let i = 0; i < this.room; i++) {
      [0, 1, 2, 2, 1, 3].forEach((corner, k) => (indices[6 * i + k] = 4 * i + corner));
    }
    this.gl.bufferData(this.gl.ELEMENT_ARRAY_BUFFER, indices, this.gl.STATIC_DRAW);
  }

  private fillCorners({ count, places, colours }: Rectangles): void {
    const { floats, words } = this;
    const packed = new Uint32Array(colours.buffer);
    let at = 0;
    for (let i = 0; i < count; i++) {
      const x = places[4 * i];
      const y = places[4 * i + 1];
      for (let corner = 0; corner < 4; corner++) {
        floats[at] = corner & 1 ? x + places[4 * i + 2] : x;
        floats[at + 1] = corner & 2 ? y + places[4 * i + 3] : y;
        words[at + 2] = packed[i];
        at += 3;
      }
    }
  }
}

function programOf(gl: WebGL2RenderingContext): WebGLProgram {
  const program = gl.createProgram()!;
  for (const [type, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
    const shader = gl.createShader(type)!;
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  return program;
}
