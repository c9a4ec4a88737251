import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { fromBase64, inflate, varints } from "../src/decode.ts";
import { axisTime, bytes, duration, tick } from "../src/format.ts";
import { Viewport } from "../src/viewport.ts";

test("columns are decoded", async () => {
  const encoded = deflateSync(Uint8Array.from([0, 1, 127, 0x80, 0x01, 0xac, 0x02]));
  const raw = await inflate(fromBase64(encoded.toString("base64")));
  assert.deepEqual([...varints(raw, 5)], [0, 1, 127, 128, 300]);
});

test("columns are decoded where the browser cannot decompress", async () => {
  const known = globalThis.DecompressionStream;
  Object.assign(globalThis, { DecompressionStream: undefined });
  try {
    const encoded = deflateSync(Uint8Array.from([5, 6]));
    assert.deepEqual([...(await inflate(fromBase64(encoded.toString("base64"))))], [5, 6]);
  } finally {
    Object.assign(globalThis, { DecompressionStream: known });
  }
});

test("a damaged column is noticed", () => {
  assert.throws(() => varints(Uint8Array.from([1, 2, 3]), 2), /damaged/);
});

test("numbers have three digits and a unit", () => {
  assert.equal(duration(1234), "1.23 µs");
  assert.equal(duration(98_765_432), "98.8 ms");
  assert.equal(duration(0), "0 ns");
  assert.equal(bytes(17_616_076), "16.8 MiB");
});

test("marks of the axis are round and far enough apart", () => {
  assert.equal(tick(1e6, 110), 200e6);
  assert.equal(axisTime(45e6, 5e6), "45 ms");
  assert.equal(axisTime(7.2e9, 200e6), "7.2 s");
  assert.equal(axisTime(7_200_001_000, 1000), "7.200001 s");
});

test("the visible part stays inside of the timeline", () => {
  const view = new Viewport(1e9);
  view.width = 1000;
  view.zoom(0.01, 0);
  assert.deepEqual([view.from, view.to], [0, 1e7]);
  view.pan(-500);
  assert.equal(view.from, 0);
  view.fit(0.9e9, 1e9);
  assert.equal(view.to, 1e9);
  view.zoom(1e9);
  assert.deepEqual([view.from, view.to], [0, 1e9]);
  const time = view.time(300);
  view.zoom(0.5, 300);
  assert.ok(Math.abs(view.time(300) - time) < 1);
});
