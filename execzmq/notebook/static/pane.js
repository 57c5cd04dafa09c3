/**
 * Output as lines of coloured text: overwritten by `\r`, bounded, and nothing but text whatever a program writes.
 *
 * `Lines` knows no page; `Pane` shows it in one.
 */

const MOST_LINES = 2000;
const MOST_COLUMNS = 4096;
const NAMED = ["#3e424d", "#d22f2f", "#1a8f4c", "#a86f00", "#3579d0", "#a64dbb", "#138a96", "#8c8c8c"];
const BRIGHT = ["#6b7080", "#e86060", "#2fae68", "#c4911a", "#5b9bea", "#c374d3", "#2fa9b5", "#b0b0b0"];
const ESCAPE = /^(?:\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[^[\]])/;
const UNFINISHED = /^\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,4096}\x1b?)?$/;
const PLAIN = { colour: "", background: "", bold: false, faint: false, italic: false, underline: false, inverse: false };

/** The lines of an output, as a terminal without cursor addressing shows them. */
export class Lines {
  lines = [newLine()];
  first = 0; // number of the oldest line that is kept
  column = 0;
  style = PLAIN;
  css = "";
  rest = "";
  changed = new Set([0]);

  constructor(most = MOST_LINES) {
    this.most = most;
  }

  /** Take text; `mark` is what its letters are marked with. */
  feed(text, mark = "") {
    const all = this.rest + text;
    this.rest = "";
    for (let at = 0; at < all.length;) {
      if (all[at] === "\x1b") {
        const tail = all.slice(at, at + 5000);
        const escape = ESCAPE.exec(tail);
        if (!escape && UNFINISHED.test(tail)) {
          this.rest = tail;
          return;
        }
        if (escape) this.control(escape[1], escape[2]);
        at += escape ? escape[0].length : 1;
      } else {
        const letter = String.fromCodePoint(all.codePointAt(at));
        this.put(letter, mark);
        at += letter.length;
      }
    }
  }

  /** Take a line of our own, which stands by itself. */
  note(text) {
    if (this.column > 0 || this.line.letters.length > 0) this.newLine();
    this.column = 0;
    this.line.isNote = true;
    this.line.letters = [...text];
    this.line.styles = this.line.letters.map(() => "");
    this.line.marks = this.line.letters.map(() => "note");
    this.touch();
    this.newLine();
  }

  get line() {
    return this.lines[this.lines.length - 1];
  }

  put(letter, mark) {
    if (letter === "\n") return this.newLine();
    if (letter === "\r") { this.column = 0; return; }
    if (letter === "\b") { this.column = Math.max(this.column - 1, 0); return; }
    if (letter === "\t") { do this.write(" ", mark); while (this.column % 8); return; }
    if (letter >= " " && !(letter >= "\x7f" && letter < "\xa0")) this.write(letter, mark);
  }

  write(letter, mark) {
    if (this.column >= MOST_COLUMNS) return;
    const { letters, styles, marks } = this.line;
    while (letters.length < this.column) { letters.push(" "); styles.push(""); marks.push(""); }
    letters[this.column] = letter;
    styles[this.column] = this.css;
    marks[this.column] = mark;
    this.column += 1;
    this.touch();
  }

  newLine() {
    this.lines.push(newLine());
    this.column = 0;
    if (this.lines.length > this.most) {
      this.lines.shift();
      this.changed.delete(this.first);
      this.first += 1;
    }
    this.touch();
  }

  touch() {
    this.changed.add(this.first + this.lines.length - 1);
  }

  control(parameters, final) {
    if (final === "m") this.colour(parameters);
    else if (final === "K") this.erase(parameters);
    else if (final === "G") this.column = Math.min(Math.max(parseInt(parameters, 10) || 1, 1) - 1, MOST_COLUMNS);
    else if (final === "C") this.column = Math.min(this.column + (parseInt(parameters, 10) || 1), MOST_COLUMNS);
    else if (final === "D") this.column = Math.max(this.column - (parseInt(parameters, 10) || 1), 0);
  }

  erase(parameters) {
    const { letters, styles, marks } = this.line;
    const keep = parameters === "2" ? 0 : this.column;
    if (parameters === "1") {
      for (let at = 0; at < Math.min(this.column + 1, letters.length); at += 1) [letters[at], styles[at]] = [" ", ""];
    } else {
      letters.length = styles.length = marks.length = Math.min(letters.length, keep);
    }
    this.touch();
  }

  colour(parameters) {
    const codes = parameters.split(/[;:]/).map((code) => parseInt(code, 10) || 0);
    while (codes.length) {
      const code = codes.shift();
      if (code === 38 || code === 48) {
        this.style = { ...this.style, [code === 38 ? "colour" : "background"]: extended(codes) };
      } else {
        this.style = after(this.style, code);
      }
    }
    this.css = cssOf(this.style);
  }
}

/** Lines in an element of the page, which follows its end unless the user has scrolled up. */
export class Pane {
  decoders = new Map();
  shown = []; // elements of the lines
  first = 0;

  constructor(el) {
    this.el = el;
    this.lines = new Lines();
  }

  write(stream, bytes) {
    if (!this.decoders.has(stream)) this.decoders.set(stream, new TextDecoder());
    this.lines.feed(this.decoders.get(stream).decode(bytes, { stream: true }), stream === "stderr" ? "err" : "");
  }

  note(text) {
    this.lines.note(text);
  }

  /** Bring the page up to date. */
  show() {
    const { el, lines } = this;
    const isAtEnd = el.scrollHeight - el.scrollTop - el.clientHeight < 8;
    for (; this.first < lines.first; this.first += 1) this.shown.shift()?.remove();
    while (this.shown.length < lines.lines.length) {
      const line = document.createElement("span");
      line.className = "execzmq-line";
      this.shown.push(line);
      el.append(line);
    }
    for (const number of lines.changed) {
      const at = number - lines.first;
      if (at >= 0) this.shown[at].replaceChildren(...spans(lines.lines[at]));
    }
    lines.changed.clear();
    if (isAtEnd) el.scrollTop = el.scrollHeight;
  }
}

function spans({ letters, styles, marks }) {
  const made = [];
  for (let begin = 0; begin < letters.length;) {
    let end = begin + 1;
    while (end < letters.length && styles[end] === styles[begin] && marks[end] === marks[begin]) end += 1;
    const span = document.createElement("span");
    span.textContent = letters.slice(begin, end).join("");
    if (styles[begin]) span.style.cssText = styles[begin];
    if (marks[begin]) span.className = `execzmq-${marks[begin]}`;
    made.push(span);
    begin = end;
  }
  return made;
}

function newLine() {
  return { letters: [], styles: [], marks: [] };
}

function after(style, code) {
  const change = {
    0: PLAIN, 1: { bold: true }, 2: { faint: true }, 3: { italic: true }, 4: { underline: true }, 7: { inverse: true },
    22: { bold: false, faint: false }, 23: { italic: false }, 24: { underline: false }, 27: { inverse: false },
    39: { colour: "" }, 49: { background: "" },
  }[code];
  if (change) return { ...style, ...change };
  if (code >= 30 && code <= 37) return { ...style, colour: NAMED[code - 30] };
  if (code >= 90 && code <= 97) return { ...style, colour: BRIGHT[code - 90] };
  if (code >= 40 && code <= 47) return { ...style, background: NAMED[code - 40] };
  if (code >= 100 && code <= 107) return { ...style, background: BRIGHT[code - 100] };
  return style;
}

/** The colour that `5;n` or `2;r;g;b` names; takes these codes. */
function extended(codes) {
  const kind = codes.shift();
  if (kind === 2) return rgb(codes.splice(0, 3));
  if (kind !== 5) return "";
  const number = codes.shift() ?? 0;
  if (number < 16) return [...NAMED, ...BRIGHT][number];
  if (number >= 232) return rgb([8, 8, 8].map((base) => base + 10 * (number - 232)));
  const level = (part) => [0, 95, 135, 175, 215, 255][part % 6];
  return rgb([level(Math.floor((number - 16) / 36)), level(Math.floor((number - 16) / 6)), level(number - 16)]);
}

function rgb(parts) {
  return parts.length === 3 && parts.every((part) => part >= 0 && part < 256) ? `rgb(${parts.join(",")})` : "";
}

function cssOf(style) {
  let { colour, background } = style;
  if (style.inverse) [colour, background] = [background || "#ffffff", colour || "#3e424d"];
  return [
    colour && `color:${colour}`,
    background && `background-color:${background}`,
    style.bold && "font-weight:bold",
    style.faint && "opacity:0.65",
    style.italic && "font-style:italic",
    style.underline && "text-decoration:underline",
  ].filter(Boolean).join(";");
}
