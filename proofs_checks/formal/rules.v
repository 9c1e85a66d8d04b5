(* The problem and the rules, written once for numbers of any kind.

   p is the target, q the draft, both functions from tokens to numbers; drafts are lists of tokens in drawing order. The
   definitions below use nothing of the numbers but the seven operations of `numbers`. The theorems of the other files are
   about them at `real R`, any real field; the bridge (bridge.v) computes the very same terms at `binary`, Coq's rationals.
   Vocabulary and notation are those of docs/theory.md. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Record numbers (A : Type) := Numbers {
  zero : A; one : A;
  add : A -> A -> A; sub : A -> A -> A; mul : A -> A -> A; div : A -> A -> A;  (* division by zero gives zero *)
  leb : A -> A -> bool }.

Definition real (R : realFieldType) : numbers R :=
  @Numbers R 0%R 1%R (fun x y => x + y)%R (fun x y => x - y)%R (fun x y => x * y)%R (fun x y => x / y)%R (fun x y => x <= y)%R.

Definition binary : numbers Q :=
  @Numbers Q (Qmake Z0 1) (Qmake (Zpos 1) 1) (fun x y => Qred (Qplus x y)) (fun x y => Qred (Qminus x y))
    (fun x y => Qred (Qmult x y)) (fun x y => Qred (Qdiv x y)) Qle_bool.

(* What a rule decides, given the drafts: accept_i, the probability that the output is draft i, and the law of the output
   when no draft is taken. *)
Record selection (A : Type) (T : Type) := Selection { accept : seq A; residual : T -> A }.

Section Rules.
Variables (A : Type) (N : numbers A) (T : eqType) (tokens : seq T).
Local Notation "0" := (zero N).
Local Notation "1" := (one N).
Local Infix "+" := (add N).
Local Infix "-" := (sub N).
Local Infix "*" := (mul N).
Local Infix "/" := (div N).
Local Notation "x <=? y" := (leb N x y) (at level 70).

Definition least x y := if x <=? y then x else y.
Definition most x y := if x <=? y then y else x.
Definition sum_of (X : Type) (s : seq X) (f : X -> A) : A := foldr (fun x acc => f x + acc) 0 s.
Definition mass := sum_of tokens.
Fixpoint pow x k := if k is k'.+1 then x * pow x k' else 1.
(* The same function, its values computed once. *)
Definition table (f : T -> A) : T -> A := let values := map f tokens in fun y => nth 0 values (index y tokens).

(* norm(v), and `otherwise` where nothing is left of v. *)
Definition norm (v otherwise : T -> A) : T -> A :=
  let whole := mass v in table (fun y => if whole <=? 0 then otherwise y else v y / whole).
(* (p - q)+ *)
Definition excess (p q : T -> A) : T -> A := table (fun y => most (p y - q y) 0).

(** The problem. *)

(* All k-tuples of drafts. *)
Fixpoint drafts k : seq (seq T) :=
  if k is k'.+1 then flatten [seq [seq x :: xs | xs <- drafts k'] | x <- tokens] else [:: [::]].
(* Independent drafts from q. *)
Definition iid (q : T -> A) (x : seq T) : A := foldr (fun y acc => q y * acc) 1 x.
(* Drafts drawn one after the other: next h is the law of the next one when h have been drawn. *)
Fixpoint in_sequence (next : seq T -> T -> A) (h x : seq T) : A :=
  if x is y :: x' then next h y * in_sequence next (rcons h y) x' else 1.
(* row_x(y) = sum_i accept_i [x_i = y] + (1 - sum_i accept_i) residual(y) *)
Definition row (x : seq T) (s : selection A T) (y : T) : A :=
  sum_of (zip x (accept s)) (fun z => if z.1 == y then z.2 else 0) + (1 - sum_of (accept s) id) * residual s y.
Definition output k (law : seq T -> A) (rule : seq T -> selection A T) (y : T) : A :=
  sum_of (drafts k) (fun x => law x * row x (rule x) y).
Definition acceptance k (law : seq T -> A) (rule : seq T -> selection A T) : A :=
  sum_of (drafts k) (fun x => law x * sum_of [seq y <- tokens | y \in x] (row x (rule x))).

(* The least of 1 + p(H) - Q(all drafts in H) over all sets H of tokens: the best acceptance (hall.v). *)
Fixpoint token_sets (s : seq T) : seq (seq T) :=
  if s is y :: s' then let sets := token_sets s' in sets ++ [seq y :: H | H <- sets] else [:: [::]].
Definition cut_value k (law : seq T -> A) (p : T -> A) (H : seq T) : A :=
  1 + sum_of H p - sum_of [seq x <- drafts k | all (mem H) x] law.
Definition least_cut k (law : seq T -> A) (p : T -> A) : A :=
  foldr (fun H value => least (cut_value k law p H) value) (cut_value k law p tokens) (token_sets tokens).

(** Rules. *)

(* Tests in order, draft i taken with probability test_i. *)
Fixpoint in_turn (tests : seq A) : seq A :=
  if tests is t :: rest then t :: map (mul N (1 - t)) (in_turn rest) else [::].

(* The rule whose row is the given one: the first time a token stands among the drafts it is accepted with its whole mass. *)
Fixpoint first_times (r : T -> A) (seen x : seq T) : seq A :=
  if x is y :: x' then (if y \in seen then 0 else r y) :: first_times r (y :: seen) x' else [::].
Definition from_row (r : T -> A) (x : seq T) : selection A T :=
  Selection (first_times r [::] x) (norm (fun y => if y \in x then 0 else r y) r).

Definition naive_target (p : T -> A) (x : seq T) : selection A T := from_row p x.

Definition speculative_sampling (p q : T -> A) (x : seq T) : selection A T :=
  if x is y :: x' then Selection (least 1 (p y / q y) :: nseq (size x') 0) (norm (excess p q) p) else Selection [::] p.

(* p_1 = p, p_{i+1} = norm((p_i - q_i)+); q_i is the law that draft i was drawn from. *)
Fixpoint recursive_rejection (next : seq T -> T -> A) (h : seq T) (p : T -> A) (x : seq T) : selection A T :=
  if x is y :: x' then
    let q := next h in
    let t := least 1 (p y / q y) in
    let s := recursive_rejection next (rcons h y) (norm (excess p q) p) x' in
    Selection (t :: map (mul N (1 - t)) (accept s)) (residual s)
  else Selection [::] p.
(* q without what has been drawn; where no mass is left, uniform on what has not been drawn. *)
Definition without_replacement (q : T -> A) (h : seq T) : T -> A :=
  norm (fun y => if y \in h then 0 else q y) (norm (fun y => if y \in h then 0 else 1) q).

(* Factor g: draft x_i is taken with probability min(1, p(x_i) / (g q(x_i))). *)
Definition taken (g : A) (p q : T -> A) (y : T) : A := least (q y) (p y / g).
Definition tries (beta : A) (k : nat) : A := sum_of (iota 0 k) (pow (1 - beta)).  (* (1 - (1 - beta)^k) / beta *)
Definition k_seq (g : A) (p q : T -> A) (x : seq T) : selection A T :=
  let share := tries (mass (taken g p q)) (size x) in
  Selection (in_turn [seq least 1 (p y / (g * q y)) | y <- x])
    (norm (excess p (fun y => taken g p q y * share)) p).

(* A draft is selected (position i with probability choice_i), its token has the law m; then the maximal coupling with p. *)
Definition couple (p m : T -> A) (choice : seq A) (x : seq T) : selection A T :=
  Selection [seq z.2 * least 1 (p z.1 / m z.1) | z <- zip x choice] (norm (excess p m) p).

(** Optimal selection for k i.i.d. drafts; s holds the tokens with q > 0 in the order of p/q. *)
Section Levels.
Variables (p q : T -> A) (k : nat) (s : seq T).

Definition t_ (i : nat) : A := sum_of (take i s) q.
Definition F_ (i : nat) : A := sum_of (take i s) p.
Definition g_ (i : nat) : A := pow (t_ i) k.
Definition D_ (i : nat) : A := g_ i - F_ i.
Fixpoint upto (i : nat) : A := if i is j.+1 then most (upto j) (D_ i) else D_ 0.
Fixpoint down (j : nat) : A := if j is i.+1 then most (down i) (D_ (size s - j)) else D_ (size s).
(* The envelope: G = F + min(max of D up to i, max of D from i on). *)
Definition G_ (i : nat) : A := F_ i + least (upto i) (down (size s - i)).
Definition chord (h : nat -> A) (a b i : nat) : A := h a + (h b - h a) * ((t_ i - t_ a) / (t_ b - t_ a)).

(* A tree of cuts: at a node the interval stays whole with probability 1 - level, and is cut at its breakpoint else. *)
Inductive tree := Leaf | Node of A & nat & tree & tree.
Definition drop_ (h : nat -> A) a b i : A := (chord h a b i - h i) / (chord g_ a b i - g_ i).
Fixpoint build (fuel a b : nat) (h : nat -> A) : tree :=
  if fuel is fuel'.+1 then
    let c := foldr (fun i c => if drop_ h a b c <=? drop_ h a b i then i else c) a.+1 (iota a.+1 (b - a.+1)) in
    let level := drop_ h a b c in
    if (b <= a.+1)%N || (level <=? 0) then Leaf else
    let rest i := chord h a b i - (chord h a b i - h i) / level in
    Node level c (build fuel' a c rest) (build fuel' c b rest)
  else Leaf.
(* c_b, for every breakpoint b that has a level. *)
Fixpoint levels (w : tree) : seq (nat * A) :=
  if w is Node level c low high then
    [seq (z.1, level * z.2) | z <- levels low] ++ (c, level) :: [seq (z.1, level * z.2) | z <- levels high]
  else [::].
(* M: the largest level between two tokens. *)
Definition cut (l : seq (nat * A)) (i top : nat) : A :=
  foldr (fun z acc => if (i < z.1 <= top)%N then most z.2 acc else acc) 0 l.
(* The falls of the running minimum. *)
Fixpoint falls (now : A) (ms : seq A) : seq A :=
  if ms is m :: rest then (now - least now m) :: falls (least now m) rest else [::].
Definition choose (l : seq (nat * A)) (x : seq nat) : seq A :=
  falls 1 [seq cut l i (foldr maxn 0%N x) | i <- x].
Definition increment (h : nat -> A) (y : T) : A := if y \in s then h (index y s).+1 - h (index y s) else 0.

Definition optimal_levels : seq (nat * A) := levels (build (size s) 0 (size s) G_).
Definition optimal_law : T -> A := table (increment G_).
Definition optimal_with (l : seq (nat * A)) (m : T -> A) (x : seq T) : selection A T :=
  couple p m (choose l [seq index y s | y <- x]) x.
End Levels.

Definition by_ratio (p q : T -> A) : seq T :=
  sort (fun x y => p x * q y <=? p y * q x) [seq y <- tokens | ~~ (q y <=? 0)].
Definition optimal (p q : T -> A) (k : nat) : seq T -> selection A T :=
  let s := by_ratio p q in
  let l := optimal_levels p q k s in
  let m := optimal_law p q k s in
  fun x => optimal_with p s l m x.

(* Hybrid drafts: the given tokens first, the others drawn from q; `outside` is the draft's law without the given tokens. *)
Definition outside (q : T -> A) (tops : seq T) : T -> A := norm (fun y => if y \in tops then 0 else q y) q.
Definition hybrid (q : T -> A) (tops x : seq T) : A :=
  if take (size tops) x == tops then iid q (drop (size tops) x) else 0.
Definition optimal_hybrid (p q : T -> A) (tops : seq T) (r : nat) : seq T -> selection A T :=
  let drawn := optimal p q r in
  fun x => let s := drawn (drop (size tops) x) in Selection (nseq (size tops) 0 ++ accept s) (residual s).

End Rules.

Arguments least : simpl never. Arguments most : simpl never. Arguments mass : simpl never. Arguments table : simpl never.
Arguments norm : simpl never. Arguments excess : simpl never. Arguments row : simpl never. Arguments output : simpl never.
Arguments acceptance : simpl never. Arguments cut_value : simpl never. Arguments taken : simpl never. Arguments tries : simpl never. Arguments t_ : simpl never.
Arguments F_ : simpl never. Arguments g_ : simpl never. Arguments D_ : simpl never. Arguments G_ : simpl never.
Arguments chord : simpl never. Arguments drop_ : simpl never. Arguments increment : simpl never.
