// The call tree: a table whose rows open, heaviest first.

import * as format from "./format.ts";
import type { Measure, Tree } from "./tree.ts";

/** Rows below a smaller share of the whole begin closed. */
const OPEN_FROM = 0.1;
/** Further levels begin closed. */
const OPEN_UNTIL = 12;
/** Rows that are shown at first below one node. */
const FEW = 20;

export interface Listed {
  measure: Measure;
  selected: number;
  found: Set<number> | null;
}

export class Calls {
  private readonly open = new Set<number>();
  private readonly all = new Set<number>();
  private readonly body: HTMLElement;

  constructor(
    table: HTMLTableElement,
    private readonly tree: Tree,
    private readonly colourOf: (node: number, measure: Measure) => string,
    private readonly changed: () => void,
  ) {
    this.body = table.tBodies[0];
    this.body.addEventListener("click", (event) => {
      const target = event.target instanceof Element ? event.target : null;
      const button = target?.closest<HTMLElement>("[data-more]");
      if (button) this.all.add(Number(button.dataset["more"]));
      else if (target?.closest(".fold-mark")) this.toggle(Calls.rowAt(target));
      else return;
      this.changed();
    });
  }

  /** Open what has most of the time. */
  openLargest(measure: Measure): void {
    this.open.clear();
    this.tree.nodes.forEach(({ total, depth }, i) => {
      const share = total[measure] / Math.max(this.tree.whole[measure], 1);
      if (share >= OPEN_FROM && depth < OPEN_UNTIL) this.open.add(i);
    });
  }

  toggle(node: number, isOpen = !this.open.has(node)): void {
    if (isOpen) this.open.add(node);
    else this.open.delete(node);
  }

  isOpen(node: number): boolean {
    return this.open.has(node);
  }

  /** Open everything above a node. */
  reveal(node: number): void {
    for (const one of this.tree.path(node).slice(0, -1)) {
      this.open.add(one);
      this.all.add(one);
    }
    this.all.add(-1);
  }

  draw(listed: Listed): void {
    const rows: HTMLElement[] = [];
    const add = (parent: number) => {
      const children = this.tree.children(parent, listed.measure);
      const shown = this.all.has(parent) ? children : children.slice(0, FEW);
      for (const child of shown) {
        const inner = this.tree.children(child, listed.measure).length;
        rows.push(this.row(child, inner, listed));
        if (inner && this.open.has(child)) add(child);
      }
      if (shown.length < children.length) rows.push(this.rest(parent, children.length - shown.length));
    };
    add(-1);
    this.body.replaceChildren(...rows);
  }

  /** The nodes of the rows, from top to bottom. */
  listed(): number[] {
    return [...this.body.querySelectorAll<HTMLElement>("tr[data-node]")].map(Calls.rowAt);
  }

  focus(node: number): void {
    const row = this.body.querySelector<HTMLElement>(`tr[data-node="${node}"]`);
    row?.focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest" });
  }

  static rowAt(target: Element): number {
    return Number(target.closest<HTMLElement>("tr[data-node]")?.dataset["node"] ?? -1);
  }

  private row(node: number, inner: number, { measure, selected, found }: Listed): HTMLElement {
    const { name, depth, total, own, count } = this.tree.nodes[node];
    const row = document.createElement("tr");
    row.dataset["node"] = String(node);
    row.tabIndex = node === selected ? 0 : -1;
    row.setAttribute("aria-level", String(depth + 1));
    row.setAttribute("aria-selected", String(node === selected));
    if (inner) row.setAttribute("aria-expanded", String(this.open.has(node)));
    row.classList.toggle("misses", found !== null && !found.has(node));
    const share = total[measure] / Math.max(this.tree.whole[measure], 1);
    const title = document.createElement("th");
    title.scope = "row";
    title.style.setProperty("--depth", String(Math.min(depth, OPEN_UNTIL)));
    const mark = document.createElement("span");
    mark.className = inner ? "fold-mark" : "no-mark";
    mark.ariaHidden = "true";
    mark.textContent = inner ? (this.open.has(node) ? "▾" : "▸") : "";
    const swatch = document.createElement("i");
    swatch.className = "swatch";
    swatch.style.setProperty("--c", this.colourOf(node, measure));
    title.append(mark, swatch, name);
    const bar = document.createElement("span");
    bar.className = "part";
    bar.ariaHidden = "true";
    bar.append(document.createElement("i"));
    (bar.firstChild as HTMLElement).style.width = `${Math.round(1000 * share) / 10}%`;
    const number = document.createElement("span");
    number.className = "share";
    number.textContent = format.share(share);
    row.append(
      title, cell(format.duration(total[measure])), cell(bar, number),
      cell(format.duration(own[measure])), cell(count ? format.amount(count, "") : ""),
    );
    return row;
  }

  private rest(parent: number, count: number): HTMLElement {
    const row = document.createElement("tr");
    const title = document.createElement("td");
    title.colSpan = 5;
    const depth = parent < 0 ? 0 : this.tree.nodes[parent].depth + 1;
    title.style.setProperty("--depth", String(Math.min(depth, OPEN_UNTIL)));
    const button = document.createElement("button");
    button.type = "button";
    button.dataset["more"] = String(parent);
    button.textContent = `${count.toLocaleString("en")} more`;
    title.append(button);
    row.append(title);
    return row;
  }
}

function cell(...parts: (string | Node)[]): HTMLElement {
  const found = document.createElement("td");
  found.className = "n";
  found.append(...parts);
  return found;
}
