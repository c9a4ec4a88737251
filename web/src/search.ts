// Search in names, nodes and source lines.

import type { Model } from "./model.ts";

export interface Found {
  /** Whether each label matches. */
  matches: Uint8Array;
  /** Matching slices, row by row. */
  slices: Int32Array;
}

/** Matching slices in order of time. */
export function inOrder(model: Model, found: Found): Int32Array {
  return Int32Array.from(found.slices).sort((a, b) => model.start[a] - model.start[b]);
}

/** Slices whose label contains a text, whatever its case. */
export function search(model: Model, text: string): Found | null {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  return select(model, (parts) => parts.some((part) => part.toLowerCase().includes(wanted)));
}

/** Slices with exactly one of some names, or else with one that contains it. */
export function named(model: Model, names: string[]): Found | null {
  for (const name of names) {
    const exact = select(model, (parts) => parts.includes(name));
    if (exact.slices.length) return exact;
    const wanted = name.toLowerCase();
    const part = wanted.length > 3 ? search(model, wanted) : null;
    if (part?.slices.length) return part;
  }
  return null;
}

function select(model: Model, accepts: (parts: string[]) => boolean): Found {
  const matches = Uint8Array.from(model.labels, (label) => (accepts(label) ? 1 : 0));
  const slices: number[] = [];
  for (let i = 0; i < model.recorded; i++) if (matches[model.label[i]]) slices.push(i);
  return { matches, slices: Int32Array.from(slices) };
}
