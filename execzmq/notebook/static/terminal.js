/**
 * A process's terminal in a page: xterm.js, a bar that says who types, and the messages to the kernel's end.
 *
 * What a program writes is shown and nothing else: it opens no links, sets no clipboard, and its title is text.
 * Only the kernel decides who may type and which size the terminal has; the page asks.
 */

const ACK_EVERY = 128 * 1024; // bytes: each makes the front end show the kernel as busy, and idle again
const ACK_WITHIN = 50; // ms
const MOST_AT_ONCE = 256 * 1024; // bytes that are rendered in one go
const FLOOD = 32 * 1024; // bytes in one go after which there is a pause, since each frame costs the page much
const FLOOD_PAUSE = 50; // ms
const FIT_AFTER = 120; // ms without a change of the room
const PIECE = 64 * 1024; // bytes of keys in one message
const MOST_PASTED = 1024 * 1024; // bytes
const GESTURE = 100; // ms after which what the terminal sends is no answer to what the user did
const MOST_ROWS = 1000;
const MOST_COLS = 2000;
const SCROLLBACK = 5000; // lines

const WORDS = {
  waiting: "connecting …",
  yours: "you type",
  free: "nobody types; press a key to begin",
  elsewhere: "watching",
  refused: "watching only",
  ended: "ended",
  gone: "not connected",
};

/**
 * Mount a terminal into an element and return a function that unmounts it.
 *
 * `channel.send(content, buffers)` reaches the kernel's `TerminalEnd`, `channel.on(callback)` is given what that
 * sends. `info.load(name)` returns a promise of a file of `static/`: of a `.mjs` its module, of others the text.
 * For debugging, and for tests, the element has the terminal as `execzmqTerminal`.
 */
export function mount(el, channel, info) {
  const view = new TerminalView(el, channel);
  el.execzmqTerminal = view;
  view.open(info.load).catch((error) => view.fail(error));
  return () => view.close();
}

class TerminalView {
  constructor(el, channel) {
    this.el = el;
    this.channel = channel;
    this.hold = "waiting";
    this.picture = 0;
    this.rendered = 0; // bytes since the last picture
    this.acknowledged = 0;
    this.isClosed = false;
    this.steps = []; // what is to be written, as bytes, and done, as functions, in order
    this.isWriting = false;
    this.gestureAt = -Infinity;
    this.timers = new Map();
    this.cleanups = [];
    this.buildParts();
  }

  /** Load what is needed, build the terminal, and tell the kernel that it can begin. */
  async open(load) {
    const [{ Terminal }, { FitAddon }, xtermCss, css] = await Promise.all([
      load("xterm/xterm.mjs"),
      load("xterm/addon-fit.mjs"),
      load("xterm/xterm.css"),
      load("terminal.css"),
    ]);
    if (this.isClosed) return;
    addStyle(this.el, "execzmq-terminal-style", `${xtermCss}\n${css}`);
    this.term = new Terminal(optionsFor(this.el));
    this.fitting = new FitAddon();
    this.term.loadAddon(this.fitting);
    this.term.open(this.screen);
    this.cleanups.push(() => this.term.dispose());
    this.listen();
    this.channel.on((content, buffers) => this.receive(content, buffers));
    this.show();
    this.channel.send({ type: "opened", ...this.roomFor() }, []);
  }

  /** Say that the terminal cannot be shown. */
  fail(error) {
    this.hold = "gone";
    this.show(String(error && error.message ? error.message : error));
  }

  /** Let go of everything; idempotent. */
  close() {
    this.isClosed = true;
    for (const timer of this.timers.values()) clearTimeout(timer);
    this.timers.clear();
    for (const cleanup of this.cleanups.splice(0)) cleanup();
    this.root.remove();
  }

  // ---- from the kernel

  receive(content, buffers) {
    if (this.isClosed) return;
    switch (content.type) {
      case "picture": return this.begin(content, bytesOf(buffers[0]));
      case "output": return this.take(bytesOf(buffers[0]));
      case "size": return this.take(() => this.resize(content));
      case "state": return this.noteState(content);
      case "ping": return this.channel.send({ type: "here" }, []);
      case "lost": return this.note(`${amount(content.bytes)} of the output are no longer kept`);
      case "refused": return this.note(content.text);
      case "ended": return this.take(() => this.end("ended", content.text));
      case "gone": return this.end("gone", content.text);
    }
  }

  /** Forget all, and begin with a picture of the screen. */
  begin(content, data) {
    this.steps = [];
    this.take(() => {
      this.term.reset();
      this.resize(content);
      this.picture = content.picture;
      this.rendered = this.acknowledged = 0;
    });
    this.take(data);
  }

  /** Take the next step, bytes or a function. */
  take(step) {
    this.steps.push(step);
    this.go();
  }

  /** Do the next steps, unless one is under way or there is a pause. */
  go() {
    while (!this.isClosed && !this.isWriting && !this.timers.has("pause") && this.steps.length) {
      if (typeof this.steps[0] === "function") this.steps.shift()();
      else this.write(this.nextBytes());
    }
  }

  /** Write bytes; when they are rendered, count them and tell the kernel. */
  write(data) {
    this.isWriting = true;
    this.term.write(data, () => {
      this.isWriting = false;
      this.rendered += data.byteLength;
      if (this.rendered - this.acknowledged >= ACK_EVERY) this.acknowledge();
      else this.later("acknowledge", ACK_WITHIN, () => this.acknowledge(), true);
      if (data.byteLength >= FLOOD) this.later("pause", FLOOD_PAUSE, () => this.go());
      else this.go();
    });
  }

  /** Take the bytes that come next, as many as are rendered in one go. */
  nextBytes() {
    const pieces = [this.steps.shift()];
    let size = pieces[0].byteLength;
    while (this.steps.length && typeof this.steps[0] !== "function" && size < MOST_AT_ONCE) {
      pieces.push(this.steps.shift());
      size += pieces.at(-1).byteLength;
    }
    if (pieces.length === 1) return pieces[0];
    const all = new Uint8Array(size);
    let end = 0;
    for (const piece of pieces) {
      all.set(piece, end);
      end += piece.byteLength;
    }
    return all;
  }

  acknowledge() {
    if (this.isClosed || this.rendered === this.acknowledged) return;
    this.acknowledged = this.rendered;
    this.channel.send({ type: "rendered", picture: this.picture, total: this.rendered }, []);
  }

  resize({ rows, cols }) {
    this.term.resize(Math.min(cols, MOST_COLS), Math.min(rows, MOST_ROWS));
  }

  noteState({ keyboard, behind }) {
    if (this.hold === "ended" || this.hold === "gone") return;
    const had = this.hold;
    this.hold = keyboard;
    this.behind = behind;
    if (had !== keyboard) this.detail = "";
    this.show();
  }

  note(text) {
    this.detail = text;
    this.show();
  }

  end(hold, text) {
    this.acknowledge();
    this.hold = hold;
    this.behind = 0;
    this.detail = text;
    this.show();
  }

  // ---- to the kernel

  listen() {
    const { term, root } = this;
    term.onData((text) => this.type(new TextEncoder().encode(text)));
    term.onBinary((text) => this.type(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
    term.onTitleChange((title) => { this.title.textContent = title.slice(0, 100); });
    term.parser.registerOscHandler(52, () => true); // the clipboard is the user's
    term.attachCustomKeyEventHandler((event) => this.isForTerminal(event));
    for (const kind of ["keydown", "paste", "compositionend", "input"]) {
      root.addEventListener(kind, () => { this.gestureAt = performance.now(); }, true);
    }
    this.watchRoom();
    this.watchTheme();
  }

  type(data) {
    const isUser = performance.now() - this.gestureAt < GESTURE;
    if (!this.mayType() || (this.hold !== "yours" && !isUser)) return;
    if (data.byteLength > MOST_PASTED) {
      this.note(`${amount(data.byteLength)} are too much to paste at once: put it into a file`);
      return;
    }
    for (let begin = 0; begin < data.byteLength; begin += PIECE) {
      this.channel.send({ type: "typed", is_user: isUser }, [data.slice(begin, begin + PIECE).buffer]);
    }
  }

  mayType() {
    return this.hold === "yours" || this.hold === "free";
  }

  /** Keep from the terminal the keys that leave it, copy, or, where one only watches, walk through the page. */
  isForTerminal(event) {
    if (event.ctrlKey && event.shiftKey && event.key === "Enter") {
      if (event.type === "keydown") this.leave(event);
      return false;
    }
    if (event.ctrlKey && event.shiftKey && event.key.toUpperCase() === "C") {
      if (event.type === "keydown") this.copy(event);
      return false;
    }
    return this.mayType() || event.key !== "Tab";
  }

  /** Move the focus out of the terminal, to its bar. */
  leave(event) {
    event.preventDefault();
    (this.buttons.find((button) => !button.hidden) || this.root).focus();
  }

  /** Copy the selection; where the page may not, the browser says so. */
  copy(event) {
    event.preventDefault();
    if (this.term.hasSelection()) document.execCommand("copy");
  }

  roomFor() {
    const room = this.frame.offsetWidth > 0 ? this.fitting.proposeDimensions() : undefined;
    return room && room.rows > 0 && room.cols > 0 ? room : {};
  }

  watchRoom() {
    const fit = () => {
      const room = this.roomFor();
      const isNew = room.rows && (room.rows !== this.room?.rows || room.cols !== this.room?.cols);
      if (isNew && !this.isClosed) this.channel.send({ type: "fitted", ...(this.room = room) }, []);
    };
    const observer = new ResizeObserver(() => this.later("fit", FIT_AFTER, fit));
    observer.observe(this.frame);
    this.cleanups.push(() => observer.disconnect());
  }

  watchTheme() {
    const apply = () => this.later("theme", 0, () => { this.term.options.theme = themeFor(this.el); });
    const observer = new MutationObserver(apply);
    observer.observe(document.body, { attributes: true });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", apply);
    this.cleanups.push(() => observer.disconnect(), () => system.removeEventListener("change", apply));
  }

  /** Run an action once after a pause; the pause begins anew with each call unless `isSteady`. */
  later(name, pause, action, isSteady = false) {
    if (isSteady && this.timers.has(name)) return;
    clearTimeout(this.timers.get(name));
    this.timers.set(name, setTimeout(() => { this.timers.delete(name); action(); }, pause));
  }

  // ---- what is seen

  buildParts() {
    this.root = element("div", "execzmq-terminal", { role: "group", "aria-label": "Terminal", tabindex: "-1" });
    this.root.dataset.lmSuppressShortcuts = "true"; // JupyterLab's keys are the program's here
    this.root.dataset.jpSuppressContextMenu = "true"; // the browser's menu can paste
    const bar = element("div", "execzmq-terminal-bar");
    this.status = element("span", "execzmq-terminal-status", { role: "status" });
    this.title = element("span", "execzmq-terminal-title");
    this.takeButton = this.button("Take keyboard", () => this.ask("took"));
    this.handButton = this.button("Hand over keyboard", () => this.ask("handed_over"));
    this.skipButton = this.button("Skip to the present", () => this.ask("skipped"));
    this.buttons = [this.takeButton, this.handButton, this.skipButton];
    const hint = element("span", "execzmq-terminal-hint");
    hint.textContent = "Ctrl+Shift+Enter leaves the terminal";
    bar.append(this.status, ...this.buttons, this.title, hint);
    this.frame = element("div", "execzmq-terminal-frame");
    this.screen = element("div", "execzmq-terminal-screen");
    this.frame.append(this.screen);
    this.root.append(bar, this.frame);
    this.el.append(this.root);
    this.show();
  }

  button(text, action) {
    const button = element("button", "execzmq-terminal-button", { type: "button" });
    button.textContent = text;
    button.addEventListener("click", action);
    return button;
  }

  /** Ask the kernel for something; the focus goes back to the terminal. */
  ask(type) {
    this.channel.send({ type }, []);
    this.term?.focus();
  }

  /** Show who types, and offer what makes sense. */
  show(detail = this.detail) {
    this.root.dataset.keyboard = this.hold;
    this.status.textContent = detail ? `${WORDS[this.hold]}: ${detail}` : WORDS[this.hold];
    this.takeButton.hidden = this.hold !== "elsewhere" && this.hold !== "free";
    this.handButton.hidden = this.hold !== "yours";
    this.skipButton.hidden = !this.behind;
    this.skipButton.title = this.behind ? `${amount(this.behind)} are still to come` : "";
    if (!this.term) return;
    this.term.options.disableStdin = !this.mayType();
    this.term.options.cursorBlink = this.hold === "yours";
  }
}

/** Settings of the terminal, in the font and the colours of the page. */
function optionsFor(el) {
  const style = getComputedStyle(el);
  return {
    theme: themeFor(el),
    fontFamily: style.getPropertyValue("--jp-code-font-family").trim() || "monospace",
    fontSize: parseInt(style.getPropertyValue("--jp-code-font-size"), 10) || 13,
    scrollback: SCROLLBACK,
    minimumContrastRatio: 4.5,
    disableStdin: true,
    linkHandler: { activate() {}, hover() {}, leave() {} },
    allowProposedApi: false,
  };
}

const ANSI = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const ON_DARK = [
  "#3b4048", "#e06c75", "#98c379", "#d8b26e", "#61a5ee", "#c678dd", "#56b6c2", "#c8ccd4",
  "#6b7280", "#ff8087", "#b5e890", "#f2cf8a", "#82c0ff", "#e29af5", "#7fdbe6", "#ffffff",
];
const ON_LIGHT = [
  "#24292f", "#c4262e", "#1a7f37", "#8a6100", "#0a58ca", "#8a2ec0", "#0b7285", "#6e7781",
  "#57606a", "#e5534b", "#2da44e", "#b08800", "#3b82f6", "#a855f7", "#1098ad", "#8c959f",
];

/** The colours of the page around an element, and sixteen that can be read on them. */
function themeFor(el) {
  const background = resolved(el, "var(--jp-layout-color0, Canvas)");
  const foreground = resolved(el, "var(--jp-ui-font-color0, CanvasText)");
  const palette = luminance(background) < 0.4 ? ON_DARK : ON_LIGHT;
  const theme = { background, foreground, cursor: foreground, cursorAccent: background };
  theme.selectionBackground = luminance(background) < 0.4 ? "#5b86c466" : "#3b82f64d";
  ANSI.forEach((name, index) => {
    theme[name] = palette[index];
    theme[`bright${name[0].toUpperCase()}${name.slice(1)}`] = palette[index + 8];
  });
  return theme;
}

/** What a CSS colour is here, as `#rrggbb`. */
function resolved(el, colour) {
  const probe = element("span", "");
  probe.style.color = colour;
  el.append(probe);
  const [red, green, blue] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return `#${[red, green, blue].map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;
}

/** How bright a colour `#rrggbb` is, 0 to 1. */
function luminance(colour) {
  const [red, green, blue] = [1, 3, 5].map((begin) => parseInt(colour.slice(begin, begin + 2), 16) / 255);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Add a style once: to the document, or, where the element is in a shadow root, there. */
function addStyle(el, id, css) {
  const root = el.getRootNode();
  const place = root instanceof ShadowRoot ? root : document.head;
  if (place.querySelector(`#${id}`)) return;
  const style = element("style", "", { id });
  style.textContent = css;
  place.append(style);
}

function element(tag, className, attributes = {}) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** The bytes of a buffer as it comes: an ArrayBuffer or a view of one. */
function bytesOf(buffer) {
  if (buffer instanceof ArrayBuffer) return new Uint8Array(buffer);
  return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}

/** A number of bytes for people. */
function amount(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
