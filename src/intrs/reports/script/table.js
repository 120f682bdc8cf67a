// The table of numbers, copied for other documents.

function cellText(cell) {
  const seen = (node) => node && node.getClientRects().length > 0;
  const find = (kind) => [...cell.querySelectorAll(kind)].find(seen);
  const value = find(".value"), interval = find(".interval");
  const text = (value || cell).textContent.trim();
  return interval ? `${text} (${interval.textContent.trim()})` : text;
}

const tableCells = () => [...$("numbers").rows].map((row) => [...row.cells].map(cellText));

function markdown() {
  const [head, ...rows] = tableCells().map((row) => row.map((text) => text.replace(/[\\|`*_<>\[\]&~$]/g, "\\$&")));
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map((_, i) => (i ? "---:" : "---"))), ...rows.map(line)].join("\n") + "\n";
}

// Signs that LaTeX takes for commands, or has in no text font. Letters with accents are as good in UTF-8.
const GREEK = {
  α: "alpha", β: "beta", γ: "gamma", δ: "delta", ε: "varepsilon", ζ: "zeta", η: "eta", θ: "theta", ι: "iota", κ: "kappa",
  λ: "lambda", μ: "mu", µ: "mu", ν: "nu", ξ: "xi", π: "pi", ρ: "rho", σ: "sigma", τ: "tau", υ: "upsilon", φ: "varphi",
  χ: "chi", ψ: "psi", ω: "omega", Γ: "Gamma", Δ: "Delta", Θ: "Theta", Λ: "Lambda", Ξ: "Xi", Π: "Pi", Σ: "Sigma",
  Φ: "Phi", Ψ: "Psi", Ω: "Omega",
};
const MATHS = {
  ...GREEK, "≤": "le", "≥": "ge", "≠": "ne", "≈": "approx", "±": "pm", "×": "times", "·": "cdot", "∞": "infty", "ℓ": "ell",
  "→": "to", "√": "surd",
};
const LATEX = {
  "\\": "\\textbackslash{}", "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_", "{": "\\{", "}": "\\}",
  "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$", "−": "$-$", "–": "--", "—": "---",
  "…": "\\dots{}", "“": "``", "”": "''", "‘": "`", "’": "'", "\u00a0": "~", "²": "$^2$", "³": "$^3$", "₂": "$_2$",
  ...Object.fromEntries(Object.entries(MATHS).map(([sign, name]) => [sign, `$\\${name}$`])),
};

function latex() {
  const [head, ...rows] = tableCells().map((row) => row.map((text) => text.replace(/./gsu, (c) => LATEX[c] ?? c)));
  const line = (cells) => `  ${cells.join(" & ")} \\\\`;
  return [`\\begin{tabular}{l${"r".repeat(head.length - 1)}}`, "  \\hline", line(head), "  \\hline", ...rows.map(line), "  \\hline", "\\end{tabular}"].join("\n") + "\n";
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  $("copied").textContent = `${what} copied`;
  setTimeout(() => { $("copied").textContent = ""; }, 4000);
}

function startTable() {
  $("copy-markdown").addEventListener("click", () => copy(markdown(), "Markdown"));
  $("copy-latex").addEventListener("click", () => copy(latex(), "LaTeX"));
  $("intervals").addEventListener("change", () => document.body.classList.toggle("without-intervals", !$("intervals").checked));
}
