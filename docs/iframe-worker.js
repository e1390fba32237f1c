// A page that is opened from the disk may not start web workers. So the search runs in a hidden frame, which behaves like
// one: Material for MkDocs looks for the name `IFrameWorker`.
window.IFrameWorker = class extends EventTarget {
  constructor(url) {
    super();
    const frame = Object.assign(document.createElement("iframe"), { hidden: true });
    document.body.append(frame);
    this.inside = frame.contentWindow;
    this.inside.postMessage = (data) => setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
    this.inside.importScripts = async (...urls) => {
      for (const one of urls) await this.load(one);
    };
    this.ready = this.load(url);
  }

  load(url) {
    const inner = this.inside.document;
    return new Promise((resolve, reject) => {
      const script = Object.assign(inner.createElement("script"), { src: url, onload: resolve, onerror: reject });
      inner.body.append(script);
    });
  }

  async postMessage(data) {
    await this.ready;
    this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
  }
};

if (location.protocol === "file:") window.Worker = window.IFrameWorker;
