import assert from "node:assert/strict";
import { test } from "node:test";
import { fillPixels } from "../src/flat.ts";
import { Rectangles } from "../src/rectangles.ts";

const [WIDE, HIGH] = [40, 30];
const [WHITE, BLACK] = [0xffffffff, 0xff000000];

type Rectangle = [number, number, number, number, number, number];

function painted(some: Rectangle[], background = 0xffffff, scale = 1): Uint32Array {
  const rectangles = new Rectangles();
  for (const one of some) rectangles.add(...one);
  const pixels = new Uint32Array(WIDE * HIGH);
  fillPixels(pixels, rectangles, WIDE, HIGH, scale, background);
  return pixels;
}

function blackIn(pixels: Uint32Array): number {
  return pixels.filter((pixel) => pixel === BLACK).length;
}

/** The same, each pixel of each rectangle by itself. */
function paintedSlowly(some: Rectangle[]): Uint32Array {
  const pixels = new Uint32Array(WIDE * HIGH).fill(WHITE);
  for (const [x, y, width, height, colour, opacity] of some) {
    for (let row = Math.max(y, 0); row < Math.min(y + height, HIGH); row++) {
      for (let at = Math.max(x, 0); at < Math.min(Math.max(x + width, x + 1), WIDE); at++) {
        const below = pixels[row * WIDE + at];
        let mixed = 0xff000000;
        [16, 8, 0].forEach((bits, n) => {
          const [old, own] = [(below >> (8 * n)) & 255, (colour >> bits) & 255];
          mixed |= Math.round(old + (own - old) * opacity) << (8 * n);
        });
        pixels[row * WIDE + at] = mixed >>> 0;
      }
    }
  }
  return pixels;
}

test("without rectangles, there is only the background", () => {
  assert.ok(painted([]).every((pixel) => pixel === WHITE));
  assert.ok(painted([], 0x102030).every((pixel) => pixel === 0xff302010));
});

test("a rectangle has its place, its size and its colour", () => {
  const pixels = painted([[3, 4, 2, 5, 0x0000ff, 1]]);
  const inside = [...pixels.keys()].filter((i) => pixels[i] === 0xffff0000);
  assert.equal(inside.length, 10);
  assert.deepEqual([inside[0], inside.at(-1)], [4 * WIDE + 3, 8 * WIDE + 4]);
});

test("rectangles are cut at the edges, and narrow ones are visible", () => {
  assert.equal(blackIn(painted([[-5, -5, 100, 100, 0, 1]])), WIDE * HIGH);
  assert.equal(blackIn(painted([[7, 2, 0.1, 3, 0, 1]])), 3);
  for (const outside of [[90, 2], [2, 90], [-9, 2], [2, -9]]) {
    assert.equal(blackIn(painted([[outside[0], outside[1], 4, 3, 0, 1]])), 0);
  }
});

test("lanes that are copied line by line are those that are painted pixel by pixel", () => {
  let seed = 5;
  const random = (below: number) => (seed = (seed * 16807) % 2147483647) % below;
  for (let round = 0; round < 50; round++) {
    const some: Rectangle[] = [];
    for (let lane = 0; lane < 3; lane++) {
      let x = -2;
      while (x < WIDE) {
        const width = 1 + random(4);
        some.push([x, 8 * lane, width, 7, random(1 << 24), [1, 0.5, 0.3][random(3)]]);
        if (random(5) === 0) some.push([x - 1, 8 * lane - 1, 2, 9, 0, 1]);
        x += width + random(2);
      }
    }
    const [fast, slow] = [painted(some), paintedSlowly(some)];
    fast.forEach((pixel, i) => [0, 8, 16, 24].forEach((bits) => {
      const difference = ((pixel >>> bits) & 255) - ((slow[i] >>> bits) & 255);
      assert.ok(Math.abs(difference) <= 3, `round ${round}, pixel ${i}: ${difference}`);
    }));
  }
});

test("a sharper screen has more pixels", () => {
  assert.equal(blackIn(painted([[1, 1, 2, 2, 0, 1]], 0xffffff, 2)), 16);
});
