// Reads heat maps by keyboard or pointer; the pictures and their tables work without this script.
for (const figure of document.querySelectorAll(".heat")) {
  const svg = figure.querySelector("svg");
  const output = figure.querySelector("output");
  const rows = [...figure.querySelector("tbody").rows];
  const heads = [...figure.querySelector("thead").rows[0].cells].slice(1);
  const last = { x: heads.length - 1, y: rows.length - 1 };
  const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  let at = { x: 0, y: 0 };
  const show = (x, y) => {
    at = { x: Math.min(Math.max(x, 0), last.x), y: Math.min(Math.max(y, 0), last.y) };
    const values = { x: at.x, y: at.y, width: 1, height: 1 };
    for (const [name, value] of Object.entries(values)) mark.setAttribute(name, value);
    svg.append(mark);
    const row = rows[at.y].cells;
    output.value = `${row[0].textContent}, ${heads[at.x].textContent}: ${row[at.x + 1].textContent}`;
  };
  const moves = {
    ArrowLeft: () => [at.x - 1, at.y],
    ArrowRight: () => [at.x + 1, at.y],
    ArrowUp: () => [at.x, at.y - 1],
    ArrowDown: () => [at.x, at.y + 1],
    Home: () => [0, at.y],
    End: () => [last.x, at.y],
  };
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("role", "application");
  svg.setAttribute("aria-label", `${svg.getAttribute("aria-label")} Arrow keys move between ranks and steps.`);
  svg.addEventListener("focus", () => show(at.x, at.y));
  svg.addEventListener("keydown", (event) => {
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    show(...moves[event.key]());
    event.preventDefault();
  });
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const place = (offset, size, most) => Math.floor((offset / size) * (most + 1));
    show(place(event.clientX - box.left, box.width, last.x), place(event.clientY - box.top, box.height, last.y));
  });
}
