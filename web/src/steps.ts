// The steps of a run as columns for its charts.

import { varints } from "./decode.ts";
import type { RunInfo } from "./header.ts";
import { firstAbove } from "./model.ts";
import type { Series } from "./series.ts";

/** All times are in ns; starts count from the first step. */
export interface RunSteps {
  /** Number of each step, from 1. */
  number: Float64Array;
  start: Float64Array;
  duration: Float64Array;
  /** 1 while a profiler ran. */
  traced: Float64Array;
}

/** What a step is to the result: the means are those of the steady steps. */
export type Part = "steady" | "left out" | "traced";

/** Steps longer than this many medians are cut, so that a slow first one flattens no other. */
const TALLEST = 1.8;

export function stepsOf(info: RunInfo, columns: Record<string, Uint8Array>): RunSteps {
  const column = (name: string) => varints(columns[`run_${name}`], info.steps);
  const [number, start] = [summed(column("number")), summed(column("start"))];
  return { number, start, duration: column("duration"), traced: column("traced") };
}

function summed(differences: Float64Array): Float64Array {
  for (let i = 1; i < differences.length; i++) differences[i] += differences[i - 1];
  return differences;
}

export function partOf(steps: RunSteps, info: RunInfo, i: number): Part {
  if (steps.traced[i]) return "traced";
  const number = steps.number[i];
  return number >= info.first && number <= info.last ? "steady" : "left out";
}

/** Durations of the steps of one part, with nulls for all others. */
export function durationsOf(steps: RunSteps, info: RunInfo, part: Part): (number | null)[] {
  return Array.from(steps.duration, (duration, i) =>
    partOf(steps, info, i) === part ? duration : null);
}

/** End of the run, ns after the start of its first step. */
export function spanOf(steps: RunSteps): number {
  const last = steps.start.length - 1;
  return last < 0 ? 1 : steps.start[last] + steps.duration[last];
}

/** The step that runs at a time, or the last one before it; -1 if there is none. */
export function stepAt(steps: RunSteps, time: number): number {
  return firstAbove(steps.start, time) - 1;
}

/** Times of lines in the chart. */
export interface Marks {
  /** Start and end of the steady steps; null if the run has none. */
  steady: [number, number] | null;
  changes: number[];
}

export function marksOf(steps: RunSteps, info: RunInfo): Marks {
  const at = (number: number) => steps.number.findIndex((one) => one >= number);
  const first = at(info.first);
  const last = firstAbove(steps.number, info.last) - 1;
  const isKnown = info.median_ns > 0 && first >= 0 && last >= first;
  return {
    steady: isKnown ? [steps.start[first], steps.start[last] + steps.duration[last]] : null,
    changes: info.changes.map(at).filter((i) => i > 0).map((i) => steps.start[i]),
  };
}

/** Highest duration to show of the steps that begin in [from, to]. */
export function ceiling(steps: RunSteps, info: RunInfo, from: number, to: number): number {
  let [least, most] = [Infinity, 0];
  for (let i = 0; i < steps.start.length; i++) {
    if (steps.start[i] < from || steps.start[i] > to) continue;
    least = Math.min(least, steps.duration[i]);
    most = Math.max(most, steps.duration[i]);
  }
  const usual = TALLEST * Math.max(info.median_ns, most > 0 ? least : 0);
  return 1.05 * (Math.min(most, usual) || 1);
}

/** Series with the same unit, at most `most` in a group: they share a chart. */
export function grouped(series: Series[], most = 6): Series[][] {
  const groups: Series[][] = [];
  for (const one of series) {
    const open = groups.find((group) =>
      group[0].info.unit === one.info.unit && group.length < most);
    if (open) open.push(one);
    else groups.push([one]);
  }
  return groups;
}
