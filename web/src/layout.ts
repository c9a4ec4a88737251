// Where rows are, from top to bottom: a title, and below it the lanes.

import type { Model } from "./model.ts";

export const TITLE = 20;
export const LANE = 15;
const GAP = 6;
/** Height of a chart of sampled values. */
export const CHART = 2 * LANE;
/** Lanes that a row shows until it is opened. */
const CLOSED_LANES = 6;

export interface Placed {
  /** Index of the row; -1 for the predicted step. */
  row: number;
  top: number;
  lanes: number;
  hidden: number;
  height: number;
}

export class Layout {
  placed: Placed[] = [];
  height = 0;
  private readonly opened = new Set<number>();

  /** @param fix Id of the finding whose predicted step is shown; null for none. */
  constructor(private readonly model: Model, private fix: string | null) {
    this.arrange();
  }

  setPrediction(fix: string | null): void {
    this.fix = fix;
    this.arrange();
  }

  isOpen(row: number): boolean {
    return this.opened.has(row);
  }

  toggle(row: number): void {
    if (!this.opened.delete(row)) this.opened.add(row);
    this.arrange();
  }

  /** Open a row if one of its hidden lanes is needed. */
  reveal(row: number, lane: number): boolean {
    if (lane < CLOSED_LANES || this.opened.has(row)) return false;
    this.toggle(row);
    return true;
  }

  /** Top of a lane. */
  laneTop(placed: Placed, lane: number): number {
    return placed.top + TITLE + lane * LANE;
  }

  of(row: number): Placed | undefined {
    return this.placed.find((placed) => placed.row === row);
  }

  /** Row at a height. */
  rowAt(y: number): Placed | undefined {
    return this.placed.find(({ top, height }) => y >= top && y < top + height);
  }

  /** Row and lane at a height. */
  at(y: number): { placed: Placed; lane: number } | undefined {
    const placed = this.rowAt(y);
    if (!placed) return undefined;
    const lane = Math.floor((y - placed.top - TITLE) / LANE);
    return lane >= 0 && lane < placed.lanes ? { placed, lane } : undefined;
  }

  private arrange(): void {
    this.placed = [];
    let top = 0;
    const add = (row: number, all: number, isChart = false) => {
      const lanes = this.opened.has(row) ? all : Math.min(all, CLOSED_LANES);
      const height = TITLE + (isChart ? CHART : lanes * LANE) + GAP;
      this.placed.push({ row, top, lanes, hidden: all - lanes, height });
      top += height;
    };
    this.model.rows.forEach((row, index) => {
      if (row.role === "replay") return;
      add(index, row.lanes.length, row.series !== null);
      if (row.role === "steps" && index === 0 && this.fix !== null) {
        add(-1, 1);
        this.model.rows.forEach((other, at) => {
          if (other.role === "replay" && other.fix === this.fix) add(at, other.lanes.length);
        });
      }
    });
    this.height = top;
  }
}
