import assert from "node:assert/strict";
import { test } from "node:test";
import { Tree, type TreeData } from "../src/tree.ts";

// A line with two operations, one of which launches a kernel; a tiny one; and what is in no line.
const DATA: TreeData = {
  names: [["train.py(7): step"], ["aten::mm"], ["gemm", "void gemm<float>()"], ["aten::add"], ["(line not known)"]],
  parent: [-1, 0, 1, 0, -1],
  kind: ["line", "operation", "kernel", "operation", "rest"],
  category: [-1, 6, 0, 6, -1],
  count: [0, 2, 2, 1, 0],
  host: [10, 20, 0, 40, 30],
  device: [0, 0, 50, 0, 0],
};

test("times add up from the innermost to the whole", () => {
  const tree = new Tree(DATA);
  assert.deepEqual(tree.whole, { host: 100, device: 50 });
  assert.deepEqual(tree.nodes[0].total, { host: 70, device: 50 });
  assert.deepEqual(tree.nodes[1].total, { host: 20, device: 50 });
});

test("children are heaviest first, and those without time are left out", () => {
  const tree = new Tree(DATA);
  assert.deepEqual(tree.children(0, "host"), [3, 1]);
  assert.deepEqual(tree.children(0, "device"), [1]);
  assert.deepEqual(tree.children(-1, "host"), [0, 4]);
});

test("frames lie within those of their parents, from the left", () => {
  const tree = new Tree(DATA);
  const frames = new Map(tree.frames(-1, "host", 0).map((frame) => [frame.node, frame]));
  assert.deepEqual([...frames.keys()].sort(), [0, 1, 3, 4]);
  assert.deepEqual([frames.get(3)!.left, frames.get(3)!.width], [0, 0.4]);
  assert.deepEqual([frames.get(1)!.left, frames.get(1)!.width], [0.4, 0.2]);
  assert.deepEqual([frames.get(4)!.left, frames.get(4)!.width], [0.7, 0.3]);
});

test("a node that fills the width keeps what is around it", () => {
  const frames = new Tree(DATA).frames(1, "device", 0);
  assert.deepEqual(frames.map(({ node, width }) => [node, width]), [[0, 1], [1, 1], [2, 1]]);
});

test("frames that are too narrow are left out, with what is in them", () => {
  assert.deepEqual(new Tree(DATA).frames(-1, "host", 0.35).map(({ node }) => node), [0, 3]);
});

test("a node has the category in which it has most time", () => {
  const tree = new Tree(DATA);
  assert.deepEqual(tree.categories("device"), [0, 0, 0, 6, -1]);
  assert.deepEqual(tree.categories("host"), [6, 6, 0, 6, -1]);
});

test("what a search finds counts once, and by the whole name too", () => {
  const tree = new Tree(DATA);
  assert.deepEqual(tree.search("AT", "host"), { nodes: new Set([1, 3]), share: 0.6 });
  assert.deepEqual(tree.search("t", "host"), { nodes: new Set([0, 1, 3, 4]), share: 1 });
  assert.deepEqual([...tree.search("void gemm", "device").nodes], [2]);
  assert.equal(tree.search("  ", "host").nodes.size, 0);
});

test("a node knows its line", () => {
  const tree = new Tree(DATA);
  assert.equal(tree.lineOf(2), "train.py(7): step");
  assert.equal(tree.lineOf(4), "");
});
