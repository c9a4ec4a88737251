// Says when there are new runs, and opens timelines in Perfetto; the pages work without it.
(() => {
  const POLL_MS = 5000;
  const shown = document.body.dataset.version;
  const changed = document.getElementById("changed");
  const poll = async () => {
    if (document.hidden) return;
    try {
      const { version } = await (await fetch("/state")).json();
      if (String(version) === shown || changed.firstChild) return;
      const link = document.createElement("a");
      link.href = location.href;
      link.textContent = "Show them";
      changed.append("There are changes. ", link);
    } catch {
      // The server has ended, or is busy: ask again later.
    }
  };
  if (shown !== "0") setInterval(poll, POLL_MS);

  const PERFETTO = "https://ui.perfetto.dev";
  const HANDSHAKE_MS = 100;
  const status = document.getElementById("perfetto");

  // Perfetto's documented way: ask the window until it answers, then post the trace to it.
  const whenReady = (target) =>
    new Promise((resolve, reject) => {
      const end = (settle, value) => {
        clearInterval(timer);
        removeEventListener("message", answered);
        settle(value);
      };
      const answered = (event) => {
        if (event.origin === PERFETTO && event.source === target && event.data === "PONG") end(resolve);
      };
      addEventListener("message", answered);
      const timer = setInterval(() => {
        if (target.closed) end(reject, new Error("its window was closed"));
        else target.postMessage("PING", PERFETTO);
      }, HANDSHAKE_MS);
    });

  for (const form of document.querySelectorAll("form.perfetto")) {
    form.addEventListener("submit", async (event) => {
      const target = window.open(PERFETTO); // at once: later, browsers block it
      if (!target) return; // blocked: the browser saves the timeline instead
      event.preventDefault();
      status.textContent = "Making the timeline …";
      try {
        const answer = await fetch(form.action, {
          method: "POST",
          body: new URLSearchParams(new FormData(form)),
        });
        if (!answer.ok) throw new Error(await answer.text());
        const buffer = await answer.arrayBuffer();
        await whenReady(target);
        const title = document.querySelector("h1").textContent;
        target.postMessage(
          { perfetto: { buffer, title, fileName: "timeline.json.gz" } }, PERFETTO);
        status.textContent = "Opened in Perfetto, in another window.";
      } catch (error) {
        target.close();
        status.textContent = `Not opened: ${error.message}`;
      }
    });
  }
})();
