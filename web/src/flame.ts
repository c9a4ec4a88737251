// The flame graph: frames as elements, heaviest first from the left, a node's children beneath it.

import type { Colours } from "./colours.ts";
import type { Measure, Tree } from "./tree.ts";

const HEIGHT = 20;
/** A narrower frame can neither be seen nor hit, pixels. */
const NARROWEST = 1.5;
/** A frame that is narrower has no text, pixels. */
const TEXT = 24;

export interface Look {
  measure: Measure;
  /** The node that fills the width; -1 for the whole program. */
  top: number;
  selected: number;
  /** What a search has found; null without one. */
  found: Set<number> | null;
}

export class Flame {
  private frames = new Map<number, HTMLElement>();

  constructor(
    readonly element: HTMLElement,
    private readonly tree: Tree,
    private readonly colours: Colours,
    private readonly describe: (node: number) => string,
  ) {}

  draw(look: Look): void {
    const width = this.element.clientWidth;
    if (!width) return;
    const categories = this.tree.categories(look.measure);
    const frames = this.tree.frames(look.top, look.measure, NARROWEST / width);
    this.frames = new Map(frames.map((frame) => {
      const box = document.createElement("div");
      const category = categories[frame.node];
      const { name } = this.tree.nodes[frame.node];
      box.id = `frame-${frame.node}`;
      box.dataset["node"] = String(frame.node);
      box.setAttribute("role", "treeitem");
      box.setAttribute("aria-level", String(frame.depth + 1));
      box.setAttribute("aria-label", this.describe(frame.node));
      if (frame.width * width >= TEXT) box.textContent = name;
      const isAround = look.top >= 0 && frame.depth < this.tree.nodes[look.top].depth;
      box.classList.toggle("around", isAround);
      box.classList.toggle("misses", look.found !== null && !look.found.has(frame.node));
      box.style.left = `${100 * frame.left}%`;
      box.style.width = `calc(${100 * frame.width}% - ${frame.width * width > 4 ? 1 : 0}px)`;
      box.style.top = `${HEIGHT * frame.depth}px`;
      box.style.backgroundColor = hex(this.colours.of(category, frame.node));
      box.style.color = this.colours.textOn(category);
      return [frame.node, box];
    }));
    const deepest = Math.max(0, ...frames.map(({ depth }) => depth));
    this.element.style.height = `${HEIGHT * (deepest + 1) + 2}px`;
    this.element.replaceChildren(...this.frames.values());
    this.select(look.selected);
  }

  /** Mark one frame, and name it to whoever cannot see it. */
  select(node: number): void {
    this.frames.forEach((box, one) => box.setAttribute("aria-selected", String(one === node)));
    if (this.frames.has(node)) this.element.setAttribute("aria-activedescendant", `frame-${node}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  has(node: number): boolean {
    return this.frames.has(node);
  }

  /** The frame at an element, -1 for none. */
  static at(target: EventTarget | null): number {
    const box = target instanceof Element ? target.closest<HTMLElement>("[data-node]") : null;
    return box ? Number(box.dataset["node"]) : -1;
  }
}

function hex(colour: number): string {
  return `#${colour.toString(16).padStart(6, "0")}`;
}
