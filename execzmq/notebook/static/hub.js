/**
 * The page's end of a kernel's hub: finds the records of processes in the page and mounts live views into them.
 *
 * A record is a `<div class="execzmq execzmq-id-… execzmq-instance-… …">` that reads well by itself. Its facts
 * are classes, since front ends take other attributes from what they do not trust. Nothing in a record makes
 * the kernel look for a process unless the kernel has shown it, or the user presses its button.
 */

const LINGER = 5 * 60 * 1000; // ms for which what was taken out of the page may come back
const HELLO_EVERY = 250; // ms, for the first `OFTEN` times
const OFTEN = 20;
const ENOUGH_GREETINGS = 4;
const BUTTON = "padding:1px 8px;border:1px solid var(--jp-border-color1,#888);border-radius:3px;color:inherit;"
  + "background:var(--jp-layout-color1,Canvas);font:inherit;cursor:pointer"; // as the view's, whose style is not loaded yet
const NAME = Symbol.for("execzmq.page.1");

/** What the hubs of all kernels share in one page. */
class Page {
  hubs = new Map(); // token → Hub
  mounts = new Set();
  shown = new Map(); // process whose cell was begun in this page → the last event that the cell has shown
  roots = new Set();
  isDue = false;

  constructor() {
    // A page that is left, or loaded anew, holds no keyboard; what it cannot say any more the kernel finds out.
    addEventListener("pagehide", () => { for (const mount of [...this.mounts]) mount.close(); });
  }

  /** Find records in a document or a shadow root, now and whenever it changes. */
  watch(root) {
    if (this.roots.has(root)) return;
    this.roots.add(root);
    new MutationObserver((changes) => this.noteChanges(changes)).observe(root, { childList: true, subtree: true });
    this.scanSoon();
  }

  noteChanges(changes) {
    for (const change of changes) {
      for (const node of change.addedNodes) if (node.shadowRoot) this.watch(node.shadowRoot);
    }
    this.scanSoon();
  }

  /** Scan before the page is painted, so that a record that is written anew is not seen without its view. */
  scanSoon() {
    if (this.isDue) return;
    this.isDue = true;
    const scan = () => {
      if (!this.isDue) return;
      this.isDue = false;
      this.scan();
    };
    requestAnimationFrame(scan);
    setTimeout(scan, 200); // a hidden page is never painted
  }

  scan() {
    for (const root of this.roots) {
      for (const record of root.querySelectorAll(".execzmq")) this.look(record);
    }
    const now = Date.now();
    for (const mount of [...this.mounts]) {
      if (mount.record.isConnected) mount.goneAt = 0;
      else if (!mount.goneAt) mount.goneAt = now;
      else if (now - mount.goneAt > LINGER) mount.close();
    }
  }

  look(record) {
    const facts = factsOf(record);
    if (!facts.id || !facts.instance) return;
    const present = [...this.mounts].find((mount) => mount.record === record);
    const moved = present ? undefined : this.left(record, facts);
    if (facts.state !== "running") return this.finish(moved, record, facts);
    const owner = this.hubs.get(facts.hub);
    if (moved) return moved.move(record, facts);
    if (present && (present.hub === owner || !owner?.isLive)) return;
    present?.close();
    if (owner?.isLive) new Mount(this, owner, record, facts).open();
    else if (!owner && "elsewhere" in facts === false) this.offer(record, facts);
  }

  /** Let go of a view that has nothing to show but what stands in the record and the output under it. */
  finish(moved, record, facts) {
    const hasOutput = facts.kind === "terminal" || this.shown.has(keyOf(facts));
    if (hasOutput) moved?.close();
    else moved?.move(record, facts);
  }

  /** Offer to attach to what a kernel has shown that is gone. */
  offer(record, facts) {
    const hub = [...this.hubs.values()].reverse().find((one) => one.isLive);
    if (hub) new Mount(this, hub, record, facts).offer();
  }

  /** The view that was in a record before that was written anew. */
  left(record, facts) {
    const key = keyOf(facts);
    const left = [...this.mounts].filter((mount) => !mount.record.isConnected && keyOf(mount.facts) === key);
    return left.find((mount) => mount.parent === record.parentNode) ?? left.find((mount) => !mount.parent.isConnected);
  }
}

/** One kernel, by the model of its widget. */
class Hub {
  isLive = false;
  greetings = 0;
  files = new Map();
  waiting = new Map();

  constructor(page, model) {
    this.page = page;
    this.model = model;
    this.token = model.get("token");
    this.hear = (content, buffers) => this.receive(content, buffers);
    this.die = () => this.close();
    model.on("msg:custom", this.hear);
    model.on("comm_live_update", this.die); // the kernel is gone, or restarts
    page.hubs.set(this.token, this);
    this.greet(HELLO_EVERY);
  }

  /**
   * Say hello until it is answered aside from the kernel's cells: a page's first messages wait for the cell that
   * runs, until the front end has made another way for them. Where none makes one, be content after a while.
   */
  greet(pause) {
    if (this.isLive || this.isClosed) return;
    this.greetings += 1;
    this.send({ type: "hello" });
    const next = this.greetings < OFTEN ? pause : Math.min(2 * pause, LINGER);
    setTimeout(() => this.greet(next), pause);
  }

  send(content, buffers = []) {
    this.model.send(content, undefined, buffers);
  }

  receive(content, buffers) {
    switch (content.type) {
      case "welcome": return this.begin(content.is_aside);
      case "asset": return this.take(content.name, buffers[0]);
      case "begun": return this.page.shown.set(keyOf(content), 0);
      case "ended": return this.keep(content);
    }
    for (const mount of this.page.mounts) {
      if (mount.hub === this && mount.id === content.mount) mount.receive(content, buffers);
    }
  }

  begin(isAside) {
    if (!isAside && this.greetings < ENOUGH_GREETINGS) return;
    if (this.isLive || this.page.hubs.get(this.token) !== this) return;
    this.isLive = true;
    this.load("view.js").catch(() => {}); // so that it is there when the kernel is busy
    this.page.scanSoon();
  }

  /** Return a promise of a file of the kernel's: of JavaScript its module, of others the text. */
  load = (name) => {
    if (!this.files.has(name)) {
      this.files.set(name, new Promise((resolve, reject) => this.waiting.set(name, { resolve, reject })));
      this.send({ type: "asset", name });
    }
    return this.files.get(name);
  };

  take(name, buffer) {
    const { resolve, reject } = this.waiting.get(name) ?? {};
    this.waiting.delete(name);
    if (!resolve) return;
    if (!buffer) return reject(new Error(`the kernel has no file ${name}`));
    if (!/\.m?js$/.test(name)) return resolve(new TextDecoder().decode(buffer));
    const url = URL.createObjectURL(new Blob([buffer], { type: "text/javascript" }));
    import(/* webpackIgnore: true */ /* @vite-ignore */ url).then(resolve, reject).finally(() => URL.revokeObjectURL(url));
  }

  /**
   * Keep a process's last record in the notebook, if its cell was begun before the page was loaded: then the
   * front end no longer knows which output the kernel speaks of.
   */
  keep(ended) {
    if (this.page.shown.has(keyOf(ended))) return;
    try {
      rewrite(this.model.widget_manager?.context?.model?.cells ?? [], ended);
    } catch (error) {
      console.warn("execzmq: the record of an ended process could not be written", error);
    }
  }

  close() {
    this.isLive = false;
    this.isClosed = true;
    this.model.off("msg:custom", this.hear);
    this.model.off("comm_live_update", this.die);
    if (this.page.hubs.get(this.token) === this) this.page.hubs.delete(this.token);
    for (const mount of [...this.page.mounts]) if (mount.hub === this) mount.close();
    this.page.scanSoon();
  }
}

/** One live view in one record. */
class Mount {
  goneAt = 0;
  listeners = [];
  scrolls = new Map();

  constructor(page, hub, record, facts) {
    Object.assign(this, { page, hub, record, facts, parent: record.parentNode });
    this.id = [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    this.el = document.createElement("div");
    this.el.className = "execzmq-live";
    this.el.dataset.lmSuppressShortcuts = "true"; // keys are for what is in it, not for JupyterLab's cells
    this.rememberFocus();
    page.mounts.add(this);
    record.append(this.el);
  }

  /** Ask the kernel for its end of the view. */
  open() {
    const { id, instance, kind, on } = this.facts;
    this.hub.send({ type: "mount", mount: this.id, process_id: id, instance, kind, on: on ?? null });
  }

  /** Show a button that opens the view, and the output after what the notebook has. */
  offer(text = "") {
    const button = document.createElement("button");
    const words = document.createElement("span");
    button.type = "button";
    button.textContent = "Attach";
    button.style.cssText = BUTTON;
    button.title = "show the process as it is, and go on with its output";
    words.textContent = text;
    words.setAttribute("role", "status");
    button.addEventListener("click", () => {
      this.isAsked = true;
      button.disabled = true;
      words.textContent = " …";
      this.open();
    });
    this.el.replaceChildren(button, words);
  }

  receive(content, buffers) {
    switch (content.type) {
      case "mounted": return this.show(content.kind).catch((error) => this.offer(` ${error.message}`));
      case "refused": return this.offer(` ${content.text}`);
      case "lost": return this.open();
      case "shown": return this.note(content.seq);
      case "to": for (const listener of [...this.listeners]) listener(content.content, buffers);
    }
  }

  /** Note what the cell has shown; a page that was loaded anew since the cell was begun has not got it. */
  note(seq) {
    const key = keyOf(this.facts);
    if (this.page.shown.has(key)) this.page.shown.set(key, seq);
  }

  async show(kind) {
    const { mount } = await this.hub.load(`${kind}.js`);
    if (!this.page.mounts.has(this)) return;
    this.hide?.();
    this.listeners = [];
    const channel = {
      send: (content, buffers) => this.hub.send({ type: "to", mount: this.id, content }, buffers),
      on: (listener) => this.listeners.push(listener),
    };
    this.el.replaceChildren();
    this.showRecord(false);
    this.hide = mount(this.el, channel, {
      load: this.hub.load,
      seq: () => Math.max(this.page.shown.get(keyOf(this.facts)) ?? 0, Number(this.facts.seq) || 0),
      isAttaching: this.isAsked === true,
    });
  }

  /** Show or hide what the record says by itself. */
  showRecord(isShown) {
    for (const part of this.record.children) {
      if (part !== this.el) part.style.display = isShown ? "" : "none";
    }
  }

  /** Go into the record that has taken the place of the one before. */
  move(record, facts) {
    Object.assign(this, { record, facts, parent: record.parentNode });
    record.append(this.el);
    if (this.hide) this.showRecord(false);
    for (const [element, top] of this.scrolls) element.scrollTop = top;
    this.focused?.focus({ preventScroll: true });
  }

  /** A front end that writes a record anew takes the focus, and how far was scrolled, from what was in it. */
  rememberFocus() {
    this.el.addEventListener("focusin", (event) => { this.focused = event.target; });
    this.el.addEventListener("focusout", () => {
      queueMicrotask(() => { if (this.el.isConnected) this.focused = undefined; });
    });
    this.el.addEventListener("scroll", (event) => this.scrolls.set(event.target, event.target.scrollTop), true);
  }

  close() {
    this.page.mounts.delete(this);
    if (this.hide && this.hub.isLive) this.hub.send({ type: "unmount", mount: this.id });
    this.hide?.();
    this.el.remove();
    this.showRecord(true);
  }
}

/** Write a record anew where it stands in the cells of JupyterLab's or Notebook's model. */
function rewrite(cells, { id, instance, data }) {
  for (const { outputs } of cells) {
    for (let index = 0; index < (outputs?.length ?? 0); index += 1) {
      const output = outputs.get(index).toJSON();
      const html = [output.data?.["text/html"] ?? ""].flat().join("");
      if (html.includes(`execzmq-id-${id} execzmq-instance-${instance} `)) outputs.set(index, { ...output, data });
    }
  }
}

/** The facts that a record's classes tell. */
function factsOf(record) {
  const facts = {};
  for (const name of record.classList) {
    const [, fact, value] = /^execzmq-([a-z]+)(?:-(.*))?$/.exec(name) ?? [];
    if (fact) facts[fact] = value ?? "";
  }
  return facts;
}

/** What tells a process from all others. */
function keyOf(facts) {
  return `${facts.id} ${facts.instance}`;
}

function initialize({ model }) {
  const page = (globalThis[NAME] ??= new Page());
  page.watch(document);
  const hub = new Hub(page, model);
  return () => hub.close();
}

/** Show one record where a front end gives a place for it, in a shadow root too. */
function render({ model, el }) {
  el.append(...new DOMParser().parseFromString(model.get("record"), "text/html").body.childNodes);
  globalThis[NAME].watch(el);
  return () => el.replaceChildren();
}

export default { initialize, render };
