// Browsers start no worker for a page that was opened from a file. The search of the theme then runs
// in a hidden frame of the page, behind the part of a worker's interface that the theme uses.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentDocument;
      inside.open();
      inside.write(
        "<!doctype html><title>Search</title>",
        "<script>window.postMessage = (message) => parent.postMessage(message, '*')</script>",
        `<script src="${url}"></script>`,
      );
      this.ready = new Promise((done) => this.frame.addEventListener("load", done, { once: true }));
      inside.close();
      addEventListener("message", (event) => {
        if (event.source === this.frame.contentWindow)
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
    }

    async postMessage(data) {
      await this.ready;
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
