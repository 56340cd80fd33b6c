// A page that was opened as a file may start no worker, which the search is. Then it runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside = new Promise(resolve => {
        const script = frame.contentDocument.createElement("script");
        script.src = url;
        script.onload = () => resolve(inside);
        frame.contentDocument.body.append(script);
      });
    }
    postMessage(data) {
      this.inside.then(inside => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
  };
}
