// The search runs in a Web Worker, which browsers do not start for pages that are opened from files. There a hidden frame runs the
// same script instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html>";
      this.scope = new Promise((resolve, reject) => {
        this.frame.onload = () => {
          const scope = this.frame.contentWindow;
          // What the script calls to answer.
          scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = scope.document.createElement("script");
          script.src = url;
          script.onload = () => resolve(scope);
          script.onerror = reject;
          scope.document.body.append(script);
        };
      });
      document.body.append(this.frame);
    }
    async postMessage(data) {
      const scope = await this.scope;
      scope.dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
