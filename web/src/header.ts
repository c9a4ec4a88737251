// What the page says about its timeline, as `stepwhy.show.html.timeline` writes it.

export interface Row {
  title: string;
  group: string;
  role: "steps" | "time" | "thread" | "stream" | "series" | "replay";
  /** Number of slices in each lane, from top to bottom. */
  lanes: number[];
  series: SeriesInfo | null;
  /** Id of the finding whose fix a replay is about; "" for other rows. */
  fix: string;
}

/** Sampled values; the numbers are as stored, times `scale` gives the unit. */
export interface SeriesInfo {
  unit: string;
  scale: number;
  /** Number of values in the columns. */
  values: number;
  least: number;
  most: number;
  capacity: number | null;
}

export interface Category {
  label: string;
  colour: string;
}

/** The predicted step after the fix of a finding, as shares of the mean measured step. */
export interface Predicted {
  id: string;
  title: string;
  low: number;
  middle: number;
  high: number;
  /** What is predicted, and what is drawn, in sentences. */
  text: string;
  /** Number of the step whose replay is drawn, from 1; 0 if none is. */
  step: number;
  after_ns: number;
}

/** What a finding is about: names to look for, and otherwise a category of the breakdown. */
export interface Jump {
  id: string;
  names: string[];
  category: number;
}

/** The whole run; its columns begin with 'run_'. */
export interface RunInfo {
  /** Number of steps in the columns. */
  steps: number;
  /** Numbers of the first and the last step that the result describes. */
  first: number;
  last: number;
  median_ns: number;
  /** Numbers of the first steps after lasting changes of the step time. */
  changes: number[];
  rows: Row[];
}

export interface Header {
  span_ns: number;
  rows: Row[];
  categories: Category[];
  predicted: Predicted[];
  jumps: Jump[];
  shortest_ns: number;
  /** Number of steps at the beginning that are not described. */
  warm_up: number;
  run: RunInfo | null;
}
