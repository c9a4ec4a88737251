import assert from "node:assert/strict";
import { test } from "node:test";
import { rowTitle } from "../src/details.ts";
import type { Row } from "../src/header.ts";
import { Layout } from "../src/layout.ts";
import type { Model } from "../src/model.ts";
import { replayedStep } from "../src/scene.ts";
import { search } from "../src/search.ts";
import { modelOf } from "./levels.test.ts";

function row(role: Row["role"], title: string, fix = ""): Row {
  return { title, group: "GPU:0", role, lanes: [1], series: null, fix };
}

/** Two steps, and one kernel, which two fixes move. */
function modelWithReplays(): Model {
  const rows = [
    { ...row("steps", "Steps"), group: "", lanes: [2] }, row("stream", "stream 7"),
    row("replay", "stream 7", "one"), row("replay", "stream 7", "other"),
  ];
  const strips = [0, 1, 2, 3].map((index) => (
    { row: index, lane: 0, first: index && index + 1, end: index + 2 }));
  const model = modelOf([[0, 10], [10, 20], [4, 8], [2, 6], [1, 5]]);
  return { ...model, rows, strips, firstStrip: [0, 1, 2, 3], recorded: 3 };
}

test("the replay of the selected fix is beneath the predicted steps", () => {
  const layout = new Layout(modelWithReplays(), "one");
  const rows = () => layout.placed.map((placed) => placed.row);
  assert.deepEqual(rows(), [0, -1, 2, 1]);
  layout.setPrediction("other");
  assert.deepEqual(rows(), [0, -1, 3, 1]);
  layout.setPrediction("not replayed");
  assert.deepEqual(rows(), [0, -1, 1]);
  layout.setPrediction(null);
  assert.deepEqual(rows(), [0, 1]);
});

test("a search finds no replayed work", () => {
  assert.deepEqual([...search(modelWithReplays(), "a")!.slices], [0, 1, 2]);
});

test("the replayed step is found by its number", () => {
  const predicted = { id: "one", title: "", low: 0, middle: 0, high: 0, text: "", after_ns: 5 };
  assert.equal(replayedStep(modelWithReplays(), { ...predicted, step: 2 }), 1);
  assert.equal(replayedStep(modelWithReplays(), { ...predicted, step: 0 }), -1);
});

test("a replayed row says that it is predicted", () => {
  assert.equal(rowTitle(row("replay", "stream 7", "one")), "Predicted · GPU:0 · stream 7");
});
