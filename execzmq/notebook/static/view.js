/**
 * The live view of a process in a page: how it is, buttons, a line for its stdin, and its output on demand.
 *
 * What a process is called and what it writes is shown as text and nothing else.
 */

/**
 * Mount a live view into an element and return a function that unmounts it.
 *
 * `channel.send(content, buffers)` reaches the kernel's `ViewEnd`, `channel.on(callback)` is given what that
 * sends. `info.load(name)` returns a promise of a file of `static/`; `info.seq()` is the last event that the
 * notebook has shown; `info.isAttaching` asks for the output after it at once.
 */
export function mount(el, channel, info) {
  const view = new View(el, channel, info);
  view.open().catch((error) => view.say(String(error.message ?? error)));
  return () => view.close();
}

class View {
  pane = null;
  status = null;
  statusAt = 0;

  constructor(el, channel, info) {
    Object.assign(this, { el, channel, info });
    this.build();
    channel.on((content, buffers) => this.receive(content, buffers));
    this.timer = setInterval(() => this.showTime(), 1000);
  }

  async open() {
    this.ask("opened");
    const [css, { Pane }] = await Promise.all([this.info.load("view.css"), this.info.load("pane.js")]);
    this.Pane = Pane;
    addStyle(this.el, css);
    if (this.info.isAttaching) this.attach();
  }

  close() {
    clearInterval(this.timer);
    this.root.remove();
  }

  // ---- from the kernel

  receive(content, buffers) {
    switch (content.type) {
      case "status": return this.note(content);
      case "said": return this.say(content.text);
      case "stdin": this.line.hidden = !content.is_open; return;
      case "gone": return this.end(content.text);
      case "output": return this.write(content, buffers[0]);
    }
  }

  note(status) {
    this.status = status;
    this.statusAt = performance.now();
    const { is_running: isRunning, returncode } = status;
    this.root.dataset.state = isRunning ? "running" : returncode === 0 ? "well" : "ill";
    set(this.word, status.text);
    set(this.command, status.name ? `${status.name}: ${status.command}` : status.command);
    this.command.title = status.command;
    set(this.usage, isRunning && status.usage ? usageText(status.usage) : "");
    for (const part of [this.interrupt, this.stop, this.kill]) part.hidden = !isRunning;
    if (!isRunning) this.line.hidden = true;
    this.showTime();
  }

  say(text) {
    this.said.textContent = text;
  }

  end(text) {
    this.root.dataset.state = "gone";
    set(this.word, "not connected");
    for (const part of [this.interrupt, this.stop, this.kill, this.line]) part.hidden = true;
    this.say(text);
  }

  write({ number, pieces }, buffer) {
    if (!this.pane) return;
    const bytes = new Uint8Array(buffer.buffer ?? buffer, buffer.byteOffset ?? 0, buffer.byteLength);
    let at = 0;
    for (const [kind, size] of pieces) {
      if (kind === "lost") this.pane.note(`… ${amount(size)} of the output are no longer kept`);
      else if (kind === "left_out") this.pane.note(`… ${amount(size)} left out here; the log has them`);
      else this.pane.write(kind, bytes.subarray(at, (at += size)));
    }
    requestAnimationFrame(() => this.pane?.show());
    this.ask("rendered", { number });
  }

  // ---- to the kernel

  ask(type, more = {}, buffers = []) {
    this.channel.send({ type, ...more }, buffers);
  }

  /** Show the output after what the notebook has; pressed again, no more. */
  attach() {
    const isOpen = this.pane !== null;
    this.output.replaceChildren();
    this.output.hidden = isOpen;
    this.pane = isOpen ? null : new this.Pane(this.output);
    this.show.textContent = isOpen ? "Attach" : "Detach";
    this.show.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) this.ask("detached");
    else this.ask("attached", { seq: this.info.seq() });
  }

  type() {
    this.ask("typed", {}, [new TextEncoder().encode(`${this.input.value}\n`).buffer]);
    this.input.value = "";
  }

  // ---- what is seen

  build() {
    this.root = element("div", "execzmq-view", { role: "group", "aria-label": "Process" });
    const bar = element("div", "execzmq-bar");
    this.word = element("span", "execzmq-status", { role: "status" });
    this.command = element("span", "execzmq-command");
    this.time = element("span", "execzmq-elapsed");
    this.usage = element("span", "execzmq-usage");
    this.said = element("span", "execzmq-said", { role: "status" });
    this.show = button("Attach", "show the output that the notebook does not have, and go on", () => this.Pane && this.attach());
    this.interrupt = button("Interrupt", "send SIGINT", () => this.ask("interrupt"));
    this.stop = button("Stop", "send SIGTERM to all of it, and kill what is left after 5 s", () => this.ask("stop"));
    this.kill = button("Kill", "kill all of it at once", () => this.ask("kill"));
    bar.append(this.word, this.command, this.time, this.usage, this.show, this.interrupt, this.stop, this.kill, this.said);
    this.output = element("pre", "execzmq-pane", { tabindex: "0", role: "log", "aria-label": "Output" });
    this.output.hidden = true;
    this.root.append(bar, this.buildLine(), this.output);
    this.el.append(this.root);
    set(this.word, "connecting …");
  }

  buildLine() {
    this.line = element("div", "execzmq-stdin-line");
    this.line.hidden = true; // until it is known that there is a stdin
    this.input = element("input", "execzmq-stdin", {
      type: "text", "aria-label": "Line for stdin", placeholder: "a line for stdin", autocomplete: "off", spellcheck: "false",
    });
    this.send = button("Send", "send the line", () => this.type());
    this.eof = button("Close stdin", "end its input, as Ctrl+D does", () => this.ask("ended_stdin"));
    this.line.append(this.input, this.send, this.eof);
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing) return;
      event.preventDefault();
      this.type();
    });
    return this.line;
  }

  showTime() {
    if (this.status?.elapsed == null) return;
    const since = this.status.is_running ? (performance.now() - this.statusAt) / 1000 : 0;
    set(this.time, duration(this.status.elapsed + since));
  }
}

/** What a process uses, in a few words. */
export function usageText({ cpu, memory, processes }) {
  const parts = [];
  if (cpu !== null) parts.push(`CPU ${Math.round(cpu * 100)} %`);
  parts.push(amount(memory));
  if (processes > 1) parts.push(`${processes} processes`);
  return parts.join(" · ");
}

/** A duration for people. */
export function duration(seconds) {
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  const [minutes, rest] = [Math.floor(whole / 60), String(whole % 60).padStart(2, "0")];
  if (minutes < 60) return `${minutes}:${rest}`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}

/** A number of bytes for people. */
export function amount(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  for (const [unit, size] of [["kB", 1e3], ["MB", 1e6], ["GB", 1e9]]) {
    if (bytes < 1000 * size) return `${(bytes / size).toFixed(1)} ${unit}`;
  }
  return `${(bytes / 1e12).toFixed(1)} TB`;
}

/** Write a text where it differs: a screen reader would say it again. */
function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function element(tag, className, attributes = {}) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function button(text, title, action) {
  const made = element("button", "", { type: "button", title });
  made.textContent = text;
  made.addEventListener("click", action);
  return made;
}

/** Add a style once: to the document, or, where the element is in a shadow root, there. */
function addStyle(el, css) {
  const root = el.getRootNode();
  const place = root instanceof ShadowRoot ? root : document.head;
  if (place.querySelector("#execzmq-view-style")) return;
  const style = element("style", "", { id: "execzmq-view-style" });
  style.textContent = css;
  place.append(style);
}
