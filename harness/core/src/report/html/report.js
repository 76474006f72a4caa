'use strict';
(() => {
  const ROW = 32; // As `--row` in the style sheet.
  const FOLDED = 8; // A run of at least this many green rows is folded.
  const PRINTED = 500; // A ladder with more rows prints only those that are not green.
  const data = JSON.parse(document.getElementById('data').textContent);

  // ---- Elements. Every text becomes a text node, so nothing from a file is ever markup. ----

  const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\uffff]/g;
  const safe = (text) => String(text).replace(UNSAFE, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
      else if (name === 'style') Object.assign(node.style, value);
      else node.setAttribute(name, value === true ? '' : safe(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child === undefined || child === null || child === false) continue;
      node.append(child instanceof Node ? child : document.createTextNode(safe(child)));
    }
    return node;
  }
  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) =>
    fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

  const ICONS = {
    pass: 'M2.5 7.5 6 11l5.5-8', fail: 'M3 3l8 8M11 3l-8 8', pending: 'M7 3v4.5l3 2M7 .8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 7 .8',
    ungated: 'M2 7h10', approved: 'M1 7q6-8 12 0q-6 8-12 0M7 5.6a1.4 1.4 0 1 1 0 2.8a1.4 1.4 0 0 1 0-2.8', new: 'M7 2v10M2 7h10', ignored: 'M2 12 12 2', not_run: 'M7 2v6M7 11v.6',
  };
  const icon = (name) => svg('svg', { viewBox: '0 0 14 14', 'aria-hidden': 'true' },
    svg('path', { d: ICONS[name] || ICONS.ungated, fill: 'none', stroke: 'currentColor', 'stroke-width': 2, 'stroke-linecap': 'round', 'stroke-linejoin': 'round' }));

  // Text in backticks becomes code, and numbers such as 1e-5 do not break.
  const unbroken = (text) => text.split(/(\b\d[\d.]*e-\d+\b)/).map((part, at) => (at % 2 ? el('span', { class: 'unbroken' }, part) : part));
  const prose = (text) => String(text).split('`').map((part, at) => (at % 2 ? el('code', {}, part) : unbroken(part)));
  // A sentence about a cause: places in files, and how much of the error it explains, step back behind the rest.
  const ASIDE = /( \([^()]*:\d+\)| \(reversing this [^()]*\))/;
  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
  const sentence = (text) => capital(String(text)).split(ASIDE).map((part, at) => (at % 2 ? el('span', { class: 'aside' }, prose(part)) : prose(part)));

  // ---- Numbers. NaN and the infinities come as words. ----

  const number = (x) => (x === undefined || x === null ? undefined : typeof x === 'number' ? x : { inf: Infinity, '-inf': -Infinity, nan: NaN }[x] ?? NaN);
  function short(x, digits = 3) {
    x = number(x);
    if (x === undefined) return '';
    if (x === 0) return '0';
    if (!Number.isFinite(x)) return String(x).replace('Infinity', '∞');
    const size = Math.abs(x);
    return size >= 1e-3 && size < 1e5 ? String(Number(x.toPrecision(digits))) : x.toExponential(digits - 1).replace('e+', 'e');
  }
  const multiple = (x) => { x = number(x); return x === undefined ? '' : !Number.isFinite(x) ? `${x}×`.replace('Infinity', '∞') : x >= 1e4 ? `${x.toExponential(1).replace('e+', 'e')}×` : `${Number(x.toPrecision(3))}×`; };
  function used(x) {
    x = number(x);
    if (x === undefined) return '';
    if (!Number.isFinite(x)) return `${x}×`.replace('Infinity', '∞').replace('NaN×', 'NaN');
    return x >= 9.995 ? multiple(x) : x > 0 && x < 0.0005 ? '<0.1 %' : `${(100 * x).toFixed(1)} %`;
  }
  const millis = (x) => { x = number(x); return x === undefined ? '' : x >= 100 ? `${x.toFixed(0)} ms` : `${short(x)} ms`; };
  function bytes(x) {
    if (x === undefined || x === null) return '';
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let at = 0;
    while (x >= 1024 && at < units.length - 1) { x /= 1024; at += 1; }
    return `${Number(x.toPrecision(3))} ${units[at]}`;
  }
  const plural = (count, word) => `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;

  const WORDS = { pass: 'passed', fail: 'failed', ungated: 'not gated', approved: 'approved by eye', new: 'new', pending: 'pending', ignored: 'ignored', not_run: 'not run' };

  // ---- Rows. ----

  const all = [];
  data.specs.forEach((spec, at) => {
    spec.at = at;
    spec.rows.forEach((row, position) => {
      row.spec = spec;
      row.position = position;
      row.key = `${spec.id}::${row.name}`;
      all.push(row);
    });
    spec.red = spec.fate === 'failed' || spec.rows.some((row) => row.status === 'fail' || row.status === 'pending');
  });
  const byKey = new Map(all.map((row) => [row.key, row]));
  const growth = (row) => {
    if (!row.before) return row.status === 'fail' ? 1e300 : 0;
    const before = number(row.before.used) ?? 0;
    const now = number(row.used) ?? 0;
    const red = (status) => status === 'fail' || status === 'pending';
    const turned = red(row.status) && !red(row.before.status) ? 1e200 : 0;
    return turned + (before === now ? 1 : before > 0 ? now / before : 1e100);
  };

  // ---- The state, which is in the address. ----

  const START = { at: '', q: '', status: '', spec: '', stage: '', level: '', sort: 'run', y: 'gate', open: '' };
  const state = { ...START };
  function readAddress() {
    Object.assign(state, START);
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) if (name in START) state[name] = value;
  }
  function writeAddress(push) {
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries(state)) if (value !== START[name]) parameters.set(name, value);
    const hash = parameters.toString();
    const address = hash ? `#${hash}` : location.pathname + location.search;
    try {
      history[push ? 'pushState' : 'replaceState'](null, '', address);
    } catch {
      location.hash = hash; // Some browsers do not allow it for files.
    }
  }
  const list = (text) => new Set(text ? text.split(',') : []);
  const isFiltered = () => Boolean(state.q || state.status || state.spec || state.stage || state.level);

  function matches() {
    const statuses = list(state.status);
    const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    return (row) => (!statuses.size || statuses.has(row.status)) && (!state.spec || row.spec.id === state.spec)
      && (!state.stage || row.stage === state.stage) && (!state.level || String(row.level) === state.level)
      && (!words.length || words.every((word) => `${row.key} ${row.class || ''} ${row.stage || ''}`.toLowerCase().includes(word)));
  }

  // ---- The head of the page. ----

  function title() {
    const { failed, declared, pending, passed, not_run: notRun } = data.counts;
    if (data.verdict === 'red') return `${failed.toLocaleString('en')} of ${plural(declared, 'trial')} failed`;
    if (data.verdict === 'incomplete') return pending ? `${plural(pending, 'trial')} pending` : notRun ? `${plural(notRun, 'spec')} not run` : 'The run has not ended';
    return `${passed === declared ? 'All' : passed.toLocaleString('en') + ' of'} ${plural(declared, 'trial')} passed`;
  }

  function verdict() {
    const sign = { red: 'fail', green: 'pass', incomplete: 'pending' }[data.verdict];
    const meta = [`run ${data.folder.split('/').pop()}`, data.started.replace('T', ' ').replace(/\.\d+Z$/, ' UTC'), plural(data.counts.specs, 'spec'), data.revision]
      .filter(Boolean);
    return el('header', { class: data.verdict },
      el('div', { class: 'verdict' }, el('div', { class: 'sign' }, icon(sign)),
        el('div', {}, el('h1', {}, title()), el('p', { class: 'meta' }, meta.map((part) => el('span', {}, part))))),
      data.injected && el('div', { class: 'banner', role: 'note' }, el('strong', {}, 'INJECTED'),
        el('span', {}, prose(injected()))),
      counts(), causes(), environment());
  }

  function injected() {
    const ids = data.specs.filter((spec) => spec.notes.some((note) => note.startsWith('INJECTED'))).map((spec) => `\`${spec.id}\``);
    const ran = data.specs.filter((spec) => spec.fate === 'ran').length;
    return ids.length === 0 || ids.length === ran ? 'Ports continued with goldens in place of their own results. This run proves nothing about a whole port.'
      : `In ${ids.slice(0, 5).join(', ')}${ids.length > 5 ? ` and ${ids.length - 5} more` : ''}, the port continued with goldens in place of its own results, so there only the single stages are proven.`;
  }

  function counts() {
    const parts = [['pass', data.counts.passed], ['fail', data.counts.failed], ['pending', data.counts.pending], ['approved', data.counts.approved], ['ungated', data.counts.not_gated], ['new', data.counts.new],
      ['ignored', data.counts.ignored]].filter(([, count]) => count > 0);
    const sum = [el('span', {}, el('b', {}, data.counts.declared.toLocaleString('en')), ' declared')];
    parts.forEach(([name, count], at) => sum.push(el('span', {}, at ? '+' : '='),
      el('span', {}, el('i', { class: `dot is-${name}` }), el('b', {}, count.toLocaleString('en')), ` ${WORDS[name]}`)));
    if (data.counts.not_run) sum.push(el('span', {}, '·'), el('span', {}, el('b', {}, data.counts.not_run), ` spec${data.counts.not_run === 1 ? '' : 's'} not run`));
    return el('div', { class: 'counts' },
      el('div', { class: 'bar', role: 'img', 'aria-label': data.line }, parts.map(([name, count]) => el('i', { class: `is-${name}`, style: { flex: `${count} 0 0` } }))),
      el('p', { class: 'sum' }, sum));
  }

  function causes() {
    const cards = [];
    for (const spec of data.specs) {
      if (!spec.red || spec.fate === 'problem') continue;
      const row = byKey.get(`${spec.id}::${spec.faulty}`) || spec.rows[spec.diverges ?? -1] || spec.rows.find((row_) => row_.status === 'fail')
        || spec.rows.find((row_) => row_.status === 'pending');
      const detail = row && row.detail;
      const text = spec.sentence || spec.reason || (row && row.line) || 'failed';
      const next = detail && detail.causes.length ? detail.causes[0].next : '';
      const failed = spec.rows.filter((row_) => row_.status === 'fail').length;
      cards.push(el('article', { class: 'cause' },
        el('h3', {}, el('code', {}, spec.id), el('span', {}, failed ? `${failed.toLocaleString('en')} of ${plural(spec.rows.length, 'trial')} failed` : 'incomplete')),
        el('p', { class: 'what' }, sentence(text), '.'),
        el('div', { class: 'foot' }, next && el('p', { class: 'next' }, el('b', {}, 'Look at '), prose(next), '.'),
          row && el('button', { class: 'link', type: 'button', onclick: () => choose(row, true) }, `Show ${row.name}`))));
    }
    const groups = new Map();
    for (const problem of data.problems) groups.set(problem.title, [...(groups.get(problem.title) || []), problem.text]);
    for (const [name, texts] of groups) {
      const items = texts.map((text) => el('li', {}, text.includes('\n') ? el('pre', {}, text) : prose(text)));
      cards.push(el('article', { class: 'cause' }, el('h3', {}, name), el('ul', {}, items.slice(0, 3)),
        items.length > 3 && el('details', {}, el('summary', {}, `${items.length - 3} more`), el('ul', {}, items.slice(3)))));
    }
    return cards.length > 0 && el('section', { class: 'causes', 'aria-label': 'Causes' }, cards);
  }

  function environment() {
    const pairs = (rows) => el('dl', { class: 'pairs' }, rows.filter(([, value]) => value).map(([label, value]) => [el('dt', {}, label), el('dd', {}, value)]));
    const first = data.environments[0];
    const value = (label) => (first ? (first.find(([name]) => name === label) || [])[1] : undefined);
    const line = first ? `MLX ${value('MLX')} on ${value('device')} · ${value('chip')} · ${value('system')}` : 'No worker recorded its environment';
    const own = [['folder', data.folder], ['suite', data.target], ['commit', data.revision], ['report by', `mlx-parity ${data.version}`]];
    const other = data.against && [['against', data.against.name], ['commit', data.against.revision], ['counts', data.against.line],
      ...data.against.environments.map((text) => ['environment', text]), ['gone', data.against.gone.slice(0, 20).join(', ')]];
    return el('details', { class: 'facts' }, el('summary', {}, data.environments.length > 1 ? `${line} · and ${data.environments.length - 1} more` : line),
      el('div', { class: 'grid' }, data.parts.map(pairs), data.environments.map(pairs), pairs(own), other && pairs(other)));
  }

  // ---- Filters. ----

  const tools = {};
  function toolbar() {
    const select = (name, label, options) => {
      const node = el('select', { 'aria-label': label, onchange: () => change({ [name]: node.value }) },
        options.map(([value, text]) => el('option', { value }, text)));
      tools[name] = node;
      return options.length > 2 && node;
    };
    const statuses = ['fail', 'pending', 'approved', 'new', 'ungated', 'ignored', 'pass'].filter((status) => all.some((row) => row.status === status));
    tools.chips = statuses.map((status) => {
      const count = all.filter((row) => row.status === status).length;
      const chip = el('button', { class: 'chip', type: 'button', 'data-status': status, onclick: () => {
        const chosen = list(state.status);
        if (!chosen.delete(status)) chosen.add(status);
        change({ status: [...chosen].join(',') });
      } }, el('i', { class: `dot is-${status}` }), WORDS[status], el('b', {}, count.toLocaleString('en')));
      return chip;
    });
    const unique = (values) => [...new Set(values.filter((value) => value !== undefined))].sort();
    tools.q = el('input', { type: 'search', placeholder: 'Search names ( / )', 'aria-label': 'Search names', oninput: () => change({ q: tools.q.value }) });
    tools.found = el('span', { class: 'found', role: 'status' });
    tools.reset = el('button', { class: 'link', type: 'button', onclick: () => change({ ...START, at: state.at, y: state.y, sort: state.sort }) }, 'Reset');
    const orders = [['run', 'In order of execution'], ['backwards', 'Backwards'], ['used', 'Most of the gate first'], ['time', 'Slowest first']];
    if (data.against) orders.push(['change', 'Worst change first']);
    return el('div', { class: 'tools', role: 'search', 'aria-label': 'Filter' }, tools.q, el('div', { class: 'chips', role: 'group', 'aria-label': 'Status' }, tools.chips),
      select('spec', 'Spec', [['', 'All specs'], ...data.specs.map((spec) => [spec.id, spec.id])]),
      select('stage', 'Stage', [['', 'All stages'], ...unique(all.map((row) => row.stage)).map((stage) => [stage, stage])]),
      select('level', 'Level', [['', 'All levels'], ...unique(all.map((row) => row.level)).map((level) => [String(level), `Level ${level}`])]),
      select('sort', 'Order', orders), tools.reset, tools.found);
  }

  function showTools(found) {
    for (const name of ['spec', 'stage', 'level', 'sort']) tools[name].value = state[name];
    if (tools.q.value !== state.q) tools.q.value = state.q;
    const chosen = list(state.status);
    tools.chips.forEach((chip) => chip.setAttribute('aria-pressed', String(chosen.has(chip.dataset.status))));
    tools.reset.hidden = !isFiltered();
    tools.found.textContent = found === all.length ? plural(all.length, 'trial') : `${found.toLocaleString('en')} of ${plural(all.length, 'trial')}`;
  }

  function change(changes) {
    Object.assign(state, changes);
    writeAddress(false);
    draw();
  }

  // ---- The ladder as a picture. ----

  const SERIES = {
    gate: { label: 'share of the gate', free: (row) => number(row.used), golden: (row) => number(row.local_used), gate: () => 1,
      floor: (row) => number(row.used) / number(row.floor), show: used },
    relative: { label: 'relative error', free: (row) => number(row.relative), golden: (row) => number(row.local_relative),
      gate: (row) => number(row.relative) / number(row.used), floor: (row) => number(row.relative) / number(row.floor), show: (x) => short(x) },
  };

  function ladder(spec) {
    const rows = spec.rows.filter((row) => row.used !== undefined || row.relative !== undefined || (row.level !== undefined && row.status === 'fail'));
    if (rows.filter((row) => row.used !== undefined || row.relative !== undefined).length < 2) return undefined;
    const holder = el('div', {});
    const readout = el('div', { class: 'readout', 'aria-hidden': 'true' });
    const scale = el('select', { 'aria-label': 'Scale of the picture', onchange: () => change({ y: scale.value }) },
      el('option', { value: 'gate' }, 'Share of the gate'), el('option', { value: 'relative' }, 'Relative error'));
    scale.value = state.y in SERIES ? state.y : 'gate';
    const key = (shape, text) => el('span', {}, svg('svg', { viewBox: '0 0 26 12', class: 'ladder', 'aria-hidden': 'true' }, shape), text);
    const line = (name) => svg('path', { class: name, d: 'M0 6H26' });
    const hasGolden = rows.some((row) => row.local_used !== undefined);
    const keys = el('div', { class: 'keys ladder' },
      key([line('free'), svg('circle', { class: 'point', cx: 13, cy: 6, r: 3.5 })], 'error'),
      rows.some((row) => row.status === 'fail') && key(rows.length <= 400 ? svg('path', { class: 'point fail cross', d: cross(13, 6) }) : svg('circle', { class: 'point fail', cx: 13, cy: 6, r: 3 }), 'failed'),
      rows.some((row) => row.status === 'approved') && key(svg('circle', { class: 'point eye', cx: 13, cy: 6, r: 4.5 }), 'approved by eye'),
      hasGolden && key([line('golden'), svg('path', { class: 'diamond', d: 'M13 2l4 4-4 4-4-4z' })], 'on golden inputs'),
      key(line('gate'), 'gate'), key(line('floor'), 'floor of the reference'),
      el('span', { class: 'scale' }, scale));
    const figure = el('figure', { class: 'ladder' }, holder, readout, keys);
    const paint = () => { holder.replaceChildren(plot(spec, rows, SERIES[state.y] || SERIES.gate, holder.clientWidth || 800, readout)); };
    figure.paint = paint;
    return figure;
  }

  const cross = (x, y) => `M${x - 4} ${y - 4}l8 8M${x + 4} ${y - 4}l-8 8`;

  function plot(spec, rows, series, width, readout) {
    const [height, left, right, top, bottom] = [250, 60, 14, 40, 22];
    const drawn = (x) => Number.isFinite(x) && x > 0;
    let low = Infinity;
    let high = 0;
    for (const row of rows) {
      for (const x of [series.free(row), series.golden(row), series.gate(row), series.floor(row)]) {
        if (drawn(x)) { low = Math.min(low, x); high = Math.max(high, x); }
      }
    }
    if (!(high > 0)) { low = 0.1; high = 10; }
    let from = Math.floor(Math.log10(low) - 0.05);
    let to = Math.ceil(Math.log10(high) + 0.05);
    if (to - from > 16) from = to - 16;
    if (to - from < 2) { from -= 1; to += 1; }
    const y = (x) => top + (height - top - bottom) * (1 - (Math.min(Math.max(Math.log10(x), from), to) - from) / (to - from));
    const step = (width - left - right) / Math.max(rows.length - 1, 1);
    const x = (at) => (rows.length === 1 ? (left + width - right) / 2 : left + at * step);
    const place = (value) => (value === undefined || Number.isNaN(value) ? undefined : value === Infinity ? top : value <= 0 ? height - bottom : y(value));
    const parts = [];
    const every = Math.ceil((to - from) / 6);
    for (let power = from; power <= to; power += every) {
      const at = y(10 ** power);
      parts.push(svg('line', { class: 'grid', x1: left, x2: width - right, y1: at, y2: at }),
        svg('text', { x: left - 8, y: at + 4, 'text-anchor': 'end' }, series === SERIES.gate && power >= -3 && power <= 0 ? `${Number((100 * 10 ** power).toPrecision(3))} %` : series === SERIES.gate && power > 0 && power < 5 ? `${(10 ** power).toLocaleString('en')}×` : `1e${power}`));
    }
    // Thousands of checkpoints share the columns of pixels: each column shows its largest value.
    const dense = step < 1.5;
    const column = (at) => Math.round(x(at));
    const path = (value) => {
      let text = '';
      let open = false;
      if (dense) {
        const most = new Map();
        rows.forEach((row, at) => { const v = place(value(row)); if (v !== undefined) most.set(column(at), Math.min(most.get(column(at)) ?? Infinity, v)); });
        for (const [cx, cy] of most) { text += `${open ? 'L' : 'M'}${cx} ${cy.toFixed(1)}`; open = true; }
        return text;
      }
      rows.forEach((row, at) => {
        const v = place(value(row));
        if (v === undefined) { open = false; return; }
        text += `${open ? 'L' : 'M'}${x(at).toFixed(1)} ${v.toFixed(1)}`;
        open = true;
      });
      return text;
    };
    const floor = path((row) => (drawn(series.floor(row)) ? series.floor(row) : undefined));
    if (floor) {
      const ends = floor.match(/M([\d.]+)[^]*?(?:L([\d.]+) [\d.]+)?$/);
      if (ends && floor.lastIndexOf('M') === 0 && ends[2]) parts.push(svg('path', { class: 'under-floor', d: `${floor}L${ends[2]} ${height - bottom}L${ends[1]} ${height - bottom}Z` }));
      parts.push(svg('path', { class: 'floor', d: floor }));
    }
    if (series === SERIES.gate) {
      // On the side of the line where the first errors are not.
      const begins = series.free(rows[0]);
      parts.push(svg('path', { class: 'gate', d: `M${left} ${y(1)}H${width - right}` }),
        svg('text', { class: 'gate-text', x: left + 4, y: y(1) + (begins > 1 ? 14 : -5) }, 'gate'));
    }
    else parts.push(svg('path', { class: 'gate', d: path((row) => (drawn(series.gate(row)) ? series.gate(row) : undefined)) }));
    const first = spec.diverges === null || spec.diverges === undefined ? -1 : rows.indexOf(spec.rows[spec.diverges]);
    parts.push(svg('path', { class: 'golden', d: path(series.golden) }), svg('path', { class: 'free', d: path(series.free) }));
    const points = !dense && rows.length <= 400;
    const seen = new Set();
    rows.forEach((row, at) => {
      const failed = row.status === 'fail';
      if (!points && !failed) return;
      const own = place(series.golden(row));
      if (points && own !== undefined) parts.push(svg('path', { class: 'diamond', d: `M${x(at)} ${own - 4.5}l4.5 4.5-4.5 4.5-4.5-4.5z` }));
      const free = place(series.free(row)) ?? (failed ? top : undefined);
      if (free === undefined) return;
      const cell = `${Math.round(x(at) / 2)},${Math.round(free / 2)}`;
      if (!points && seen.has(cell)) return;
      seen.add(cell);
      // A failure has a shape of its own, for people who do not see its colour.
      if (series.free(row) === undefined) parts.push(svg('path', { class: 'point fail', d: `M${x(at) - 5} ${free + 4}l5-8 5 8z` }));
      else if (failed && points) parts.push(svg('path', { class: 'point fail cross', d: cross(x(at), free) }));
      else parts.push(svg('circle', { class: `point${failed ? ' fail' : row.status === 'approved' ? ' eye' : ''}${points ? '' : ' dense'}`, cx: x(at), cy: free, r: row.status === 'approved' ? 4.5 : !points || rows.length > 150 ? 2 : 3 }));
    });
    if (first >= 0) {
      // On the side where the text fits; on a phone, with the end of the name only.
      const [before, after] = [x(first) - 6, width - x(first) - 6];
      const fits = Math.floor(Math.max(before, after) / 6.4) - 'first divergence: '.length;
      const name = rows[first].name.length > fits ? `…${rows[first].name.slice(1 - Math.max(fits, 4))}` : rows[first].name;
      const end = after < 6.4 * (name.length + 'first divergence: '.length) && before > after;
      parts.push(svg('line', { class: 'first', x1: x(first), x2: x(first), y1: top - 8, y2: height - bottom }),
        svg('text', { class: 'first-text', x: x(first) + (end ? -6 : 6), y: top - 10, 'text-anchor': end ? 'end' : 'start' }, `first divergence: ${name}`));
    }
    // Names at both ends must not meet on a phone.
    const room = Math.max(6, Math.floor((width - left - right) / 2 / 6.2) - 6);
    const cut = (name) => (name.length > room ? `…${name.slice(1 - room)}` : name);
    parts.push(svg('text', { class: 'axis-text', x: 4, y: 13 }, `${series.label}, log scale`), svg('text', { x: left, y: height - 5 }, `1 · ${cut(rows[0].name)}`),
      svg('text', { x: width - right, y: height - 5, 'text-anchor': 'end' }, `${rows.length.toLocaleString('en')} · ${cut(rows[rows.length - 1].name)}`));
    if (width > 700) parts.push(svg('text', { x: (left + width - right) / 2, y: height - 5, 'text-anchor': 'middle' }, 'checkpoints in order of execution'));
    const chosen = rows.findIndex((row) => row.key === state.at);
    if (chosen >= 0) parts.push(svg('line', { class: 'chosen', x1: x(chosen), x2: x(chosen), y1: top, y2: height - bottom }));
    const cursor = svg('line', { class: 'cursor', y1: top, y2: height - bottom, visibility: 'hidden' });
    const picture = svg('svg', { class: 'plot', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label':
      `Ladder of ${spec.id}: ${series.label} of ${plural(rows.length, 'checkpoint')} on a log scale. ${first >= 0 ? `First divergence at ${rows[first].name}.` : 'No divergence.'} The table below has the numbers.` },
      parts, cursor);
    const nearest = (event) => {
      const box = picture.getBoundingClientRect();
      return Math.min(rows.length - 1, Math.max(0, Math.round(((event.clientX - box.left) * (width / box.width) - left) / (step || 1))));
    };
    picture.addEventListener('pointermove', (event) => {
      const at = nearest(event);
      const row = rows[at];
      fill(cursor, { x1: x(at), x2: x(at), visibility: 'visible' }, []);
      const golden = series.golden(row);
      readout.replaceChildren(el('b', {}, row.name), ` ${series.label} ${series.show(series.free(row)) || 'unknown'}`,
        golden === undefined ? '' : ` · on golden inputs ${series.show(golden)}`, row.floor === undefined ? '' : ` · ${multiple(row.floor)} the floor`);
    });
    picture.addEventListener('pointerleave', () => { cursor.setAttribute('visibility', 'hidden'); readout.replaceChildren(); });
    picture.addEventListener('click', (event) => choose(rows[nearest(event)], false));
    return picture;
  }

  // ---- Rows of a spec. Only those in view are in the page. ----

  const unfolded = new Set();

  function items(spec, rows) {
    if (state.sort !== 'run' || isFiltered() || !spec.red) return rows;
    const found = [];
    let at = 0;
    while (at < rows.length) {
      let end = at;
      while (end < rows.length && rows[end].status === 'pass' && rows[end].key !== state.at) end += 1;
      // Two green rows stay beside a red one.
      const [from, to] = [at === 0 ? at : at + 2, end === rows.length ? end : end - 2];
      const key = `${spec.id} ${from}`;
      if (to - from >= FOLDED && !unfolded.has(key)) {
        found.push(...rows.slice(at, from), { fold: key, count: to - from }, ...rows.slice(to, end));
      } else {
        found.push(...rows.slice(at, end));
      }
      if (end < rows.length) found.push(rows[end]);
      at = end + 1;
    }
    return found;
  }

  function order(rows) {
    const by = { used: (row) => number(row.used) ?? (row.status === 'fail' ? Infinity : -1), time: (row) => number(row.millis) ?? -1, change: growth }[state.sort];
    if (state.sort === 'backwards') return [...rows].reverse();
    return by ? [...rows].sort((a, b) => by(b) - by(a)) : rows;
  }

  function rowNode(row, index, count) {
    const chosen = row.key === state.at;
    const at = { top: `${index * ROW}px` };
    if (row.fold) {
      const open = () => { unfolded.add(row.fold); draw(); };
      return el('div', { class: 'row fold', style: at, role: 'row', 'aria-rowindex': index + 2, tabindex: -1, onclick: open, 'data-at': index },
        el('span', { role: 'cell' }, `⋯ ${plural(row.count, 'green trial')}, show`));
    }
    const value = number(row.used);
    // The gauge is logarithmic, from a thousandth of the gate to a hundred times the gate. The mark is the gate.
    const part = value === undefined ? undefined : value <= 0 ? 0 : Number.isNaN(value) ? 1 : Math.min(1, Math.max(0.02, (Math.log10(value) + 3) / 5));
    const before = row.before;
    let changed;
    if (data.against) {
      const grown = growth(row);
      const same = before && number(before.used) === number(row.used) && before.status === row.status;
      changed = !before ? el('span', { class: 'num soft', role: 'cell' }, row.spec.fate === 'problem' ? '' : 'new') : same ? el('span', { class: 'num soft', role: 'cell' }, '=')
        : el('span', { class: `num ${grown > 1 ? 'worse' : 'better'}`, role: 'cell' }, `${used(before.used) || WORDS[before.status]} → ${used(row.used) || WORDS[row.status]}`);
    }
    return el('div', { class: `row ${row.status}${chosen ? ' is-chosen' : ''}`, style: at, role: 'row', 'aria-rowindex': index + 2, 'aria-selected': String(chosen),
      tabindex: -1, 'data-at': index, 'data-key': row.key, onclick: () => choose(row, false) },
      el('span', { class: `state ${row.status}`, role: 'cell' }, icon(row.status), row.status === 'fail' ? row.class || 'failed' : row.status === 'approved' ? 'by eye' : WORDS[row.status] || row.status),
      el('span', { class: 'name', role: 'cell', title: row.name }, row.name, row.spec.diverges === row.position && el('span', { class: 'tag' }, 'first divergence'),
        row.spec.faulty === row.name && row.spec.diverges !== row.position && el('span', { class: 'tag' }, 'first faulty stage')),
      el('span', { class: 'used', role: 'cell' }, el('span', { class: 'gauge', style: part === undefined ? { visibility: 'hidden' } : {} },
        part !== undefined && el('i', { style: { width: `${100 * part}%` } })), el('span', { class: 'num' }, used(row.used))),
      el('span', { class: 'num medium', role: 'cell' }, multiple(row.floor)), el('span', { class: 'num wide', role: 'cell' }, short(row.off, 2)),
      el('span', { class: 'num wide', role: 'cell' }, millis(row.millis)), changed);
  }

  class Rows {
    constructor(label) {
      this.list = [];
      this.node = el('div', { class: 'rows', role: 'rowgroup' });
      const cell = (name, text, title) => el('span', { class: name, role: 'columnheader', title }, text);
      this.table = el('div', { class: data.against ? 'table compared' : 'table', role: 'table', 'aria-label': label },
        el('div', { class: 'head-row', role: 'row' }, cell('', 'Outcome'), cell('', 'Checkpoint'), cell('num', 'Of the gate', 'The share of the gate that the error uses. The mark on the bar is the gate.'),
          cell('num medium', '× floor', 'The error in multiples of the rounding error of the reference.'), cell('num wide', 'Off by', 'The largest distance of an element from its golden.'), cell('num wide', 'Time'), data.against && cell('num', 'Against')), this.node);
      this.table.addEventListener('keydown', (event) => this.key(event));
    }

    show(rows) {
      this.list = rows;
      this.from = this.to = -1;
      this.node.style.height = `${rows.length * ROW}px`;
      this.table.setAttribute('aria-rowcount', rows.length + 1);
      this.scroll(true);
    }

    scroll(force) {
      const box = this.node.getBoundingClientRect();
      const whole = printing ? this.list.length : 0;
      const from = whole ? 0 : Math.max(0, Math.floor(-box.top / ROW) - 12);
      const to = whole || Math.max(0, Math.min(this.list.length, Math.ceil((innerHeight - box.top) / ROW) + 12));
      if (!force && from === this.from && to === this.to) return;
      [this.from, this.to] = [from, to];
      const focused = this.node.contains(document.activeElement) ? document.activeElement.dataset.at : undefined;
      const nodes = [];
      for (let at = from; at < to; at += 1) nodes.push(rowNode(this.list[at], at, this.list.length));
      this.node.replaceChildren(...nodes);
      const again = focused === undefined ? undefined : this.node.querySelector(`[data-at="${focused}"]`);
      if (again) again.focus({ preventScroll: true });
      // One row can be reached with the tab key, the others with arrows.
      const reachable = again || this.node.querySelector('.is-chosen') || this.node.firstElementChild;
      if (reachable) reachable.tabIndex = 0;
    }

    key(event) {
      const row = event.target.closest('.row[data-at]');
      if (!row) return;
      const at = Number(row.dataset.at);
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 15, PageUp: at - 15, Home: 0, End: this.list.length - 1 }[event.key];
      if (to !== undefined) {
        event.preventDefault();
        this.focus(Math.min(this.list.length - 1, Math.max(0, to)));
      } else if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault();
        row.click();
      }
    }

    focus(at) {
      const top = this.node.getBoundingClientRect().top + at * ROW;
      if (top < 110) scrollBy(0, top - 110);
      else if (top + ROW > innerHeight - 20) scrollBy(0, top + ROW - innerHeight + 20);
      this.scroll(false);
      const node = this.node.querySelector(`[data-at="${at}"]`);
      if (node) { node.tabIndex = 0; node.focus({ preventScroll: true }); }
    }
  }

  // ---- Specs. ----

  let printing = false;
  const views = data.specs.map((spec) => {
    const view = { spec, rows: new Rows(`Trials of ${spec.id}`) };
    view.head = el('button', { class: 'spec-head', type: 'button', onclick: () => toggle(spec) });
    view.body = el('div', { class: 'spec-body' });
    view.node = el('section', { class: 'spec', 'data-spec': spec.id }, view.head, view.body);
    return view;
  });
  const closed = new Set(); // Red specs that were closed.

  function isOpen(spec) {
    if (printing) return true;
    if (isFiltered()) return !closed.has(spec.id);
    const opened = list(state.open);
    return opened.has(String(spec.at)) || ((spec.red || data.specs.length === 1) && !closed.has(spec.id)) || (byKey.get(state.at) || {}).spec === spec;
  }

  function toggle(spec) {
    const opened = list(state.open);
    if (isOpen(spec)) { opened.delete(String(spec.at)); closed.add(spec.id); if ((byKey.get(state.at) || {}).spec === spec) state.at = ''; }
    else { closed.delete(spec.id); if (!spec.red) opened.add(String(spec.at)); }
    change({ open: [...opened].join(',') });
  }

  function tally(spec) {
    const count = (status) => spec.rows.filter((row) => row.status === status).length;
    if (spec.fate === 'not_run') return el('span', { class: 'tally' }, el('span', { class: 'wait' }, 'not run'));
    if (spec.fate === 'ignored') return el('span', { class: 'tally soft' }, 'ignored');
    const parts = [];
    if (count('fail')) parts.push(el('span', { class: 'bad' }, `${count('fail').toLocaleString('en')} failed`));
    if (count('pending')) parts.push(el('span', { class: 'wait' }, `${count('pending').toLocaleString('en')} pending`));
    if (count('approved')) parts.push(el('span', { class: 'eye' }, `${count('approved').toLocaleString('en')} by eye`));
    parts.push(el('span', { class: parts.length ? 'soft' : 'good' }, `${count('pass').toLocaleString('en')} passed`));
    return el('span', { class: 'tally' }, parts.flatMap((part, at) => (at ? [', ', part] : [part])));
  }

  function drawSpec(view, rows) {
    const { spec } = view;
    view.node.hidden = isFiltered() && rows.length === 0;
    if (view.node.hidden) return;
    const open = isOpen(spec);
    view.head.setAttribute('aria-expanded', String(open));
    view.head.replaceChildren(el('span', { class: 'caret', 'aria-hidden': 'true' }, '▸'), el('h2', {}, el('span', { class: 'id' }, spec.id)),
      el('span', { class: 'about' }, spec.about || ''), tally(spec));
    view.body.hidden = !open;
    if (!open) { view.body.replaceChildren(); view.figure = undefined; return; }
    view.figure = ladder(spec);
    view.body.replaceChildren(...[spec.reason && el('p', { class: 'note reason' }, spec.reason), ...spec.notes.map((note) => el('p', { class: 'note' }, prose(capital(note)), '.')),
      view.figure, spec.rows.length ? view.rows.table : undefined].filter(Boolean));
  }

  // ---- Details. ----

  const panel = el('aside', { class: 'panel', 'aria-label': 'Details', tabindex: -1 });

  function choose(row, jump) {
    if (!row) return;
    const again = state.at === row.key && !jump;
    state.at = again ? '' : row.key;
    writeAddress(true);
    draw();
    if (!again) reveal(row, jump);
  }

  function reveal(row, jump) {
    const view = views[row.spec.at];
    const at = view.rows.list.indexOf(row);
    if (at < 0) return;
    const top = view.rows.node.getBoundingClientRect().top + at * ROW;
    if (jump || top < 110 || top > innerHeight - 60) scrollTo({ top: scrollY + top - innerHeight * 0.4, behavior: 'instant' });
    view.rows.scroll(true);
    panel.scrollTop = 0;
    if (matchMedia('(max-width: 1080px)').matches) panel.focus();
  }

  const section = (name, ...children) => el('section', {}, el('h3', {}, name), children);
  const table = (head, rows, name) => el('div', { class: 'scroll' }, el('table', { class: name }, el('thead', {}, el('tr', {}, head.map((text) => el('th', { scope: 'col' }, text)))),
    el('tbody', {}, rows.map((cells) => el('tr', {}, cells.map((cell) => (cell instanceof Node ? cell : el('td', {}, cell))))))));

  function source(name, excerpt) {
    if (!excerpt) return undefined;
    // Indentation that all lines share is no use in a narrow panel.
    const indent = Math.min(...excerpt.lines.filter((line) => line.trim()).map((line) => line.search(/\S/)), 80);
    return el('div', { class: 'source' }, el('div', { class: 'file' }, el('b', {}, name), el('code', {}, `${excerpt.file}:${excerpt.line}`)),
      el('div', { class: 'code', tabindex: 0, role: 'group', 'aria-label': `Lines around ${excerpt.file}:${excerpt.line}` }, excerpt.lines.map((line, at) =>
        el('div', { class: excerpt.first + at === excerpt.line && 'here' }, el('span', {}, excerpt.first + at), line.slice(indent) || ' '))));
  }

  function histogram(found, row) {
    const [width, height, bottom] = [520, 138, 36];
    const most = Math.max(...found.counts, 1);
    const step = width / Math.max(found.counts.length, 8);
    const y = (count) => (count ? Math.max(2, ((height - bottom - 6) * Math.log10(1 + count)) / Math.log10(1 + most)) : 0);
    const bars = found.counts.map((count, at) => svg('rect', { class: 'bars', x: at * step + 0.5, width: Math.max(step - 1, 1), y: height - bottom - y(count), height: y(count) },
      svg('title', {}, `${plural(count, 'element')} from ${short(10 ** ((found.first + at) / 4))} to ${short(10 ** ((found.first + at + 1) / 4))}`)));
    const labels = [];
    found.counts.forEach((_, at) => { if ((found.first + at) % 4 === 0 && (found.counts.length < 24 || (found.first + at) % 8 === 0)) {
      labels.push(svg('line', { class: 'axis', x1: at * step, x2: at * step, y1: height - bottom, y2: height - bottom + 4 }), svg('text', { x: at * step, y: height - bottom + 15, 'text-anchor': at ? 'middle' : 'start' }, `1e${(found.first + at) / 4}`)); } });
    const notes = [`${plural(found.equal, 'element')} equal`];
    if (found.not_finite) notes.push(`${plural(found.not_finite, 'element')} not finite on one side`);
    return el('div', { class: 'chart' }, found.counts.length > 0 && svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Histogram of the error of ${row.name}, logarithmic on both axes` },
      bars, svg('line', { class: 'axis', x1: 0, x2: width, y1: height - bottom, y2: height - bottom }), labels,
      svg('text', { x: width, y: height - 3, 'text-anchor': 'end' }, 'error of an element →'), svg('text', { x: 0, y: height - 3 }, `bars: number of elements, log scale, at most ${most.toLocaleString('en')}`)), el('p', { class: 'soft' }, `${capital(notes.join(', '))}.`));
  }

  // Cividis, a scale that people see alike whatever colours they can tell apart.
  const CIVIDIS = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116], [195, 179, 105], [225, 204, 85], [254, 232, 56]];
  function colour(part) {
    const at = Math.min(0.9999, Math.max(0, part)) * (CIVIDIS.length - 1);
    const [a, b, mix] = [CIVIDIS[Math.floor(at)], CIVIDIS[Math.floor(at) + 1], at % 1];
    return a.map((x, i) => Math.round(x + (b[i] - x) * mix));
  }
  const LEVELS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

  function heatMap(map) {
    const [height, width] = [map.cells.length, map.cells[0].length];
    const canvas = el('canvas', { width, height, role: 'img', 'aria-label': `Heat map of the largest error per block, by axis ${map.rows_axis ?? 'none'} and axis ${map.columns_axis}; from ${short(map.low)} to ${short(map.high)}` });
    const context = canvas.getContext('2d');
    const pixels = context.createImageData(width, height);
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    const level = (row, column) => LEVELS.indexOf(map.cells[row][column]);
    for (let row = 0; row < height; row += 1) {
      for (let column = 0; column < width; column += 1) {
        const at = level(row, column);
        const rgb = at <= 0 ? (dark ? [38, 42, 51] : [238, 240, 244]) : at === 63 ? [213, 94, 0] : colour((at - 1) / 61);
        pixels.data.set([...rgb, 255], 4 * (row * width + column));
      }
    }
    context.putImageData(pixels, 0, 0);
    canvas.style.height = `${Math.min(340, Math.max(28, height * Math.max(4, Math.min(24, 480 / width))))}px`;
    const [low, high] = [number(map.low), number(map.high)];
    const span = (cell, cells, length) => { const from = Math.ceil((cell * length) / cells); const to = Math.ceil(((cell + 1) * length) / cells) - 1; return from >= to ? `${from}` : `${from} to ${to}`; };
    const readout = el('span', {}, map.rows_axis === null || map.rows_axis === undefined ? '' : 'Point at a block for its value');
    canvas.addEventListener('pointermove', (event) => {
      const box = canvas.getBoundingClientRect();
      const column = Math.min(width - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * width)));
      const row = Math.min(height - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * height)));
      const at = level(row, column);
      const value = at <= 0 ? 'no error' : at === 63 ? 'not finite on one side' : `error up to ${short(low * (high / low) ** ((at - 1) / 61), 2)}`;
      const rows = map.rows_axis === null || map.rows_axis === undefined ? '' : `axis ${map.rows_axis}: ${span(row, height, map.shape[map.rows_axis])}, `;
      readout.textContent = `${rows}axis ${map.columns_axis}: ${span(column, width, map.shape[map.columns_axis])}: ${value}`;
    });
    const scale = el('canvas', { width: 110, height: 1, 'aria-hidden': 'true' });
    const line = scale.getContext('2d');
    for (let at = 0; at < 110; at += 1) { line.fillStyle = `rgb(${colour(at / 109)})`; line.fillRect(at, 0, 1, 1); }
    const label = (axis) => `axis ${axis} (${map.shape[axis]})`;
    return el('div', { class: 'heat' }, el('span', { class: 'rows-label' }, map.rows_axis === null || map.rows_axis === undefined ? '' : label(map.rows_axis)), canvas,
      el('div', { class: 'under' }, el('span', {}, label(map.columns_axis), ' →'), el('span', { class: 'legend' }, short(map.low, 2), scale, short(map.high, 2))),
      el('div', { class: 'under' }, readout));
  }

  function values(error) {
    const rows = error.first_expected.map((expected, at) => {
      const actual = error.first_actual[at];
      const off = Math.abs(number(actual) - number(expected));
      return [String(at), short(expected, 7), short(actual, 7), el('td', { class: off > 0 && 'off' }, off === 0 ? '0' : short(off, 2))];
    });
    return table(['position', 'golden', 'actual', 'error'], rows, 'values');
  }

  function copy(text) {
    const button = el('button', { class: 'copy', type: 'button', 'aria-label': 'Copy the command', onclick: async () => {
      try { await navigator.clipboard.writeText(text); } catch {
        const area = el('textarea', {}, text);
        document.body.append(area);
        area.select();
        document.execCommand('copy');
        area.remove();
      }
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    } }, 'Copy');
    return button;
  }

  // The sentence, and the command after its last colon in a box of its own.
  function byEye(text) {
    const [, words, command] = text.match(/^(.*): (\S+ \S+ accept --picture .*)$/) || [];
    return command ? [el('p', {}, prose(capital(words)), ':'), el('div', { class: 'command' }, el('pre', { class: 'text' }, command), copy(command))] : el('p', {}, prose(capital(text)), '.');
  }

  function drawPanel() {
    const row = byKey.get(state.at);
    main.classList.toggle('with-panel', Boolean(row));
    document.documentElement.style.overflow = row && matchMedia('(max-width: 1080px)').matches ? 'hidden' : '';
    if (!row) { panel.remove(); return; }
    if (!panel.isConnected) main.append(panel);
    const detail = row.detail;
    const text = (at) => (at === undefined ? undefined : data.texts[at]);
    const reds = all.filter((other) => other.status === 'fail' || other.status === 'pending');
    const other = (by) => { const at = reds.indexOf(row); return at < 0 ? reds[0] : reds[(at + by + reds.length) % reds.length]; };
    const facts = [['of the gate', used(row.used)], ['on golden inputs', used(row.local_used)], ['floor', multiple(row.floor)], ['off by', short(row.off)], ['relative error', short(row.relative)],
      ['mean', short(row.mean)], ['std', short(row.std)], ['time', millis(row.millis)], ['peak memory', bytes(row.peak)]];
    const numbers = detail && detail.numbers.length ? [...detail.numbers, ['on golden inputs', used(row.local_used)], ['time', millis(row.millis)], ['peak memory', bytes(row.peak)]] : facts;
    const shape = [['actual', text(row.tensor)], ['golden', detail && detail.expected], ['gate', text(row.gate)], ['stage', row.stage], ['level', row.level], ['tap', text(row.tap)], ['why', detail && detail.why],
      ['file', detail && detail.actual_file]];
    const body = [
      el('p', { class: 'verdict-line' }, el('span', { class: `state ${row.status}` }, icon(row.status)), detail ? capital(detail.headline) : capital(WORDS[row.status] || '')),
      row.status === 'approved' ? el('p', {}, detail ? capital(detail.by_eye.replace('approved by eye ', '')) : row.line, '.') : row.line && el('p', { class: 'soft' }, unbroken(capital(row.line))),
      detail && detail.red_on_golden_inputs === false && el('p', { class: 'soft' }, 'On golden inputs this stage is right: its error comes from an earlier stage.'),
      detail && detail.faulty && el('p', { class: 'soft' }, 'This is the first faulty stage: it is wrong on golden inputs.'),
      detail && detail.causes.length > 0 && section('Cause', detail.causes.map((cause, at) => el('div', { class: 'box' }, el('p', {}, sentence(`${at ? 'or its' : 'its'} output is ${cause.text}`), '.'),
        el('p', { class: 'next' }, el('b', {}, 'Look at '), prose(cause.next), '.')))),
      detail && detail.facts.length > 0 && section('Facts', detail.facts.map((fact) => el('div', { class: 'box fact' }, prose(fact)))),
      detail && detail.pictures && section('Pictures', el('div', { class: 'triptych' }, ['golden', 'actual', 'diff'].map((kind) => el('figure', {}, el('img', { src: detail.pictures[kind], alt: `${kind} of ${row.name}` }),
        el('figcaption', {}, kind === 'diff' ? 'difference' : kind)))), el('p', { class: 'soft' }, detail.pictures.text)),
      detail && detail.by_eye && row.status === 'fail' && section('By eye', byEye(detail.by_eye)),
      detail && section('Rerun', el('div', { class: 'command' }, el('pre', { class: 'text' }, detail.rerun), copy(detail.rerun))),
      detail && (detail.port || detail.reference) && section('Source', source('port', detail.port), source('reference', detail.reference)),
      detail && detail.error && detail.error.heat_map && section('Where the error is', heatMap(detail.error.heat_map)),
      detail && detail.error && section('How large the error is', histogram(detail.error.histogram, row), detail.error.sampled && el('p', { class: 'soft' }, `From a sample of ${plural(detail.error.sampled, 'element')}.`)),
      section('Numbers', el('dl', { class: 'numbers' }, numbers.filter(([, value]) => value).map(([label, value]) => el('div', {}, el('dt', {}, label), el('dd', {}, value))))),
      row.before && section(`Against ${data.against.name}`, table(['', 'before', 'now'], [['outcome', WORDS[row.before.status], WORDS[row.status]], ['of the gate', used(row.before.used), used(row.used)],
        ['floor', multiple(row.before.floor), multiple(row.floor)], ['mean', short(row.before.mean, 6), short(row.mean, 6)], ['std', short(row.before.std, 6), short(row.std, 6)],
        ['time', millis(row.before.millis), millis(row.millis)], ['peak memory', bytes(row.before.peak), bytes(row.peak)]])),
      detail && detail.worst.length > 0 && section('Worst elements', table(['index', 'golden', 'actual', 'off by', 'of its bound'], detail.worst.map((worst) => [worst.index, worst.expected, worst.actual, worst.off, worst.used || '']))),
      detail && detail.sides.length > 0 && section('Golden and actual', table(['', 'golden', 'actual'], detail.sides)),
      detail && detail.error && section('First values', values(detail.error)),
      section('Checkpoint', el('dl', { class: 'pairs' }, shape.filter(([, value]) => value !== undefined && value !== null && value !== '').map(([label, value]) => [el('dt', {}, label), el('dd', {}, el('code', {}, value))]))),
      detail && detail.more && section('Output', el('pre', { class: 'text' }, detail.more)),
      detail && detail.problem && section('Details', el('p', {}, detail.problem)),
      !detail && row.status === 'fail' && row.spec.fate === 'ran' && el('p', { class: 'note' }, `The page holds details of the first failures only; ${plural(data.without_details, 'trial')} have none. Rerun this one to see more.`),
    ];
    const button = (label, sign, action) => el('button', { class: 'tool', type: 'button', 'aria-label': label, title: label, onclick: action }, sign);
    panel.replaceChildren(el('div', { class: 'panel-head' }, el('div', {}, el('p', { class: 'of' }, row.spec.id), el('h2', {}, row.name)),
      el('div', {}, reds.length > 1 && [button('Previous red trial (p)', '↑', () => choose(other(-1), true)), ' ', button('Next red trial (n)', '↓', () => choose(other(1), true)), ' '], button('Close (Escape)', '✕', close))),
      el('div', { class: 'panel-body' }, body.filter(Boolean)));
  }

  function close() {
    const row = byKey.get(state.at);
    state.at = '';
    writeAddress(true);
    draw();
    if (row) {
      const rows = views[row.spec.at].rows;
      const at = rows.list.indexOf(row);
      if (at >= 0) rows.focus(at);
    }
  }

  // ---- The page. ----

  const main = el('main', { class: 'main' });
  const nothing = el('p', { class: 'nothing', hidden: true }, 'No trial matches.');
  const specs = el('div', {}, nothing);

  function draw() {
    const fits = matches();
    let found = 0;
    // From the end of a pipeline to its start, as `report --order backwards` lists specs.
    const arranged = state.sort === 'backwards' ? [...views].reverse().sort((a, b) => b.spec.place - a.spec.place) : views;
    const shown = arranged.map((view) => {
      const rows = isFiltered() ? view.spec.rows.filter(fits) : view.spec.rows;
      found += rows.length;
      return [view, rows];
    });
    const scroll = scrollY;
    drawPanel();
    shown.forEach(([view, rows]) => drawSpec(view, rows));
    if (shown.some(([view], at) => specs.children[at] !== view.node)) specs.replaceChildren(...shown.map(([view]) => view.node), nothing);
    nothing.hidden = found > 0;
    shown.forEach(([view, rows]) => {
      if (view.node.hidden || view.body.hidden) return;
      if (view.figure) view.figure.paint();
      // Paper has no search and no folds: a long ladder prints its rows that are not green.
      const printed = printing && rows.length > PRINTED ? rows.filter((row) => row.status !== 'pass') : rows;
      view.rows.show(printing ? order(printed) : items(view.spec, order(rows)));
    });
    showTools(found);
    if (scrollY !== scroll) scrollTo(0, scroll);
  }

  document.body.append(el('div', { class: 'page' }, verdict(), toolbar(), main));
  main.append(specs);
  readAddress();
  draw();
  if (byKey.has(state.at)) reveal(byKey.get(state.at), true);

  const onView = () => views.forEach((view) => { if (!view.body.hidden && !view.node.hidden) view.rows.scroll(false); });
  addEventListener('scroll', onView, { passive: true });
  let width = innerWidth;
  addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; draw(); } else onView(); });
  const restore = () => { readAddress(); draw(); if (byKey.has(state.at)) reveal(byKey.get(state.at), false); };
  addEventListener('popstate', restore);
  addEventListener('hashchange', restore);
  addEventListener('beforeprint', () => { printing = true; draw(); });
  addEventListener('afterprint', () => { printing = false; draw(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === 'Escape') { if (state.at) close(); else if (typing) event.target.blur(); return; }
    if (typing) return;
    const reds = all.filter((row) => row.status === 'fail' || row.status === 'pending');
    const step = { n: 1, p: -1 }[event.key];
    if (event.key === '/') { event.preventDefault(); tools.q.focus(); }
    else if (step && reds.length) {
      const at = reds.indexOf(byKey.get(state.at));
      choose(reds[at < 0 ? 0 : (at + step + reds.length) % reds.length], true);
    }
  });
  document.documentElement.dataset.ready = 'true';
})();
