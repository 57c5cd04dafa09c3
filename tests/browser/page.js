// What the tests ask of a page of JupyterLab or Notebook 7, in the page itself: of its models, never of its pixels.

globalThis.tested = {
  runs: new Map(),

  /** The panel of the notebook that is shown. */
  async panel() {
    while (!globalThis.jupyterapp) await this.soon();
    const app = globalThis.jupyterapp;
    await app.started;
    while (!app.shell.currentWidget?.sessionContext) await this.soon();
    await app.shell.currentWidget.context.ready;
    return app.shell.currentWidget;
  },

  soon: (milliseconds = 20) => new Promise((resolve) => setTimeout(resolve, milliseconds)),

  /** Wait until a kernel is there and has nothing to do: the page says `idle` before there is one. */
  async idle() {
    const context = (await this.panel()).sessionContext;
    await context.ready;
    while (!context.session?.kernel) await this.soon();
    await context.session.kernel.info;
    while (context.session?.kernel?.status !== "idle") await this.soon();
  },

  async cell(index) {
    return (await this.panel()).content.widgets[index];
  },

  /** Begin a command; its end, also one in failure, is remembered by a key. */
  execute(key, command) {
    this.runs.set(key, globalThis.jupyterapp.commands.execute(command).catch(String));
  },

  /** Start a cell, and remember its run by its index. */
  async start(index) {
    const { content } = await this.panel();
    content.activeCellIndex = index;
    this.execute(index, "notebook:run-cell");
  },

  /** Start all cells as the menu does: what comes after one that fails does not run. */
  async startAll() {
    await this.panel();
    this.execute(-1, "notebook:run-all-cells");
  },

  async ended(index) {
    await this.runs.get(index);
  },

  async outputs(index) {
    return (await this.cell(index)).model.outputs.toJSON();
  },

  /** Begin to restart the kernel; a dialog asks whether it is meant. */
  async startRestart() {
    await this.panel();
    this.execute(-2, "notebook:restart-kernel");
  },

  /** The text of a cell's outputs, whichever form they have. */
  async text(index) {
    const text = (output) => output.text ?? output.data?.["text/plain"] ?? output.traceback ?? "";
    return (await this.outputs(index)).map((output) => [text(output)].flat().join("")).join("");
  },

  /** Wait until a cell's outputs hold a text; answer the page's time in milliseconds. */
  async said(index, text) {
    while (!(await this.text(index)).includes(text)) await this.soon(5);
    return performance.now();
  },

  /** Run a cell that has no outputs yet; answer the milliseconds until they hold a text. */
  async untilText(index, text) {
    const { outputs } = (await this.cell(index)).model;
    outputs.clear();
    const begin = performance.now();
    await this.start(index);
    const said = await this.said(index, text);
    await this.ended(index);
    return said - begin;
  },

  /** Begin to measure the longest time between two frames. */
  watchFrames() {
    const watch = (this.watch = { longest: 0, last: performance.now(), frames: 0 });
    const frame = (now) => {
      if (this.watch !== watch) return;
      watch.longest = Math.max(watch.longest, performance.now() - watch.last);
      watch.last = performance.now();
      watch.frames += 1;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  },

  /** End it, at a frame; answer milliseconds. */
  async longestFrame() {
    const { watch } = this;
    const seen = watch.frames;
    while (watch.frames === seen) await this.soon();
    this.watch = null;
    return watch.longest;
  },
};
