(* Rules along paths, written once for numbers of any kind, as rules.v is.

   p h and q h are the target's and the draft's law of the next token after the tokens h: models of any kind, given any depth.
   A rule emits a beginning of a drafted path and one token more; from there on the target goes on. What is defined
   is the probability that the tokens so emitted and continued are z: a rule is lossless if that is the target's own probability,
   `in_sequence p [::] z`, for every z of one token more than the paths. *)

From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Paths.
Variables (A : Type) (N : numbers A) (T : eqType) (tokens : seq T) (p q : seq T -> T -> A).
Implicit Types (h x z : seq T) (xs : seq (seq T)) (w : A) (m : T -> A) (L K : nat).
Local Notation "0" := (zero N).
Local Notation "1" := (one N).
Local Infix "+" := (add N).
Local Infix "-" := (sub N).
Local Infix "*" := (mul N).
Local Infix "/" := (div N).
Local Notation "x <=? y" := (leb N x y) (at level 70).
Local Notation sum := (sum_of N).
Local Notation continued := (in_sequence N p).

(* The sum of cap(u) over all prefixes u up to n tokens below h, without h: its cap is w, cap(u c) = min(P(u c is drafted), p(c|u) cap(u)). *)
Fixpoint caps (drafted : seq T -> A) n h w : A :=
  if n is n'.+1 then
    sum tokens (fun c => let w' := least N (drafted (rcons h c)) (w * p h c) in w' + caps drafted n' (rcons h c) w')
  else 0.

(** The ladder of weights: w at a node after h, when its token was drawn, or selected, by the law m. *)
Definition next_weight h w m (y : T) : A := least N 1 (w * p h y / m y).
Definition left_over h w m : T -> A := excess N tokens (fun y => w * p h y) m.
(* h_i = R_i / (R_i + 1 - w_i), R_i the mass of (w_i p - m)+ *)
Definition test h w m : A :=
  let rest := mass N tokens (left_over h w m) in if rest + (1 - w) <=? 0 then 1 else rest / (rest + (1 - w)).
Definition following h w m : T -> A := norm N tokens (left_over h w m) (p h).

(** Block verification: the longest beginning of the path that passes its own test, h_L = w_L at its end. *)

(* Some beginning that reaches to h at least passes. *)
Fixpoint block_passes h w x : A :=
  if x is y :: x' then
    let longer := block_passes (rcons h y) (next_weight h w (q h) y) x' in longer + (1 - longer) * test h w (q h)
  else w.
(* ... and the tokens after h are z. *)
Fixpoint block_emits h w x z : A :=
  if x is y :: x' then
    if z is c :: z' then
      let w' := next_weight h w (q h) y in
      (if c == y then block_emits (rcons h y) w' x' z' else 0)
      + (1 - block_passes (rcons h y) w' x') * (test h w (q h) * following h w (q h) c * continued (rcons h c) z')
    else 0
  else w * continued h z.
(* The number of tokens that are accepted, and the sum of the weights w_1 .. w_L. *)
Fixpoint block_length h w x : A :=
  if x is y :: x' then
    let w' := next_weight h w (q h) y in block_passes (rcons h y) w' x' + block_length (rcons h y) w' x'
  else 0.
Fixpoint weights h w x : A :=
  if x is y :: x' then let w' := next_weight h w (q h) y in w' + weights (rcons h y) w' x' else 0.
(* The same for token-wise speculative sampling: v_i = v_(i-1) min(1, p/q). *)
Fixpoint token_weights h v x : A :=
  if x is y :: x' then let v' := v * least N 1 (p h y / q h y) in v' + token_weights (rcons h y) v' x' else 0.

Definition block_output L z : A := sum (drafts tokens L) (fun x => in_sequence N q [::] x * block_emits [::] 1 x z).

(** Several paths. *)

(* All lists of K paths of length L, and their probability. *)
Definition bundles L K : seq (seq (seq T)) := drafts (drafts tokens L) K.
Definition bundle_law h xs : A := iid N (in_sequence N q h) xs.
(* The next tokens of the paths; what follows y on those that go on with y. *)
Definition heads xs : seq T := pmap ohead xs.
Definition survivors (y : T) xs : seq (seq T) := [seq behead x | x <- xs & ohead x == Some y].

(* Token-wise: a rule for the drafts that are still alive at every node, up to the first output that nobody drafted. *)
Fixpoint token_wise_emits (rule : seq T -> seq T -> selection A T) h L xs z : A :=
  match L, z with
  | L'.+1, c :: z' => row N (heads xs) (rule h (heads xs)) c
      * (if c \in heads xs then token_wise_emits rule (rcons h c) L' (survivors c xs) z' else continued (rcons h c) z')
  | _, _ => continued h z
  end.
Definition token_wise_output rule L K z : A :=
  sum (bundles L K) (fun xs => bundle_law [::] xs * token_wise_emits rule [::] L xs z).

(* The number of accepted tokens. *)
Fixpoint token_wise_length (rule : seq T -> seq T -> selection A T) h L xs : A :=
  if L is L'.+1 then
    sum [seq c <- tokens | c \in heads xs] (fun c => row N (heads xs) (rule h (heads xs)) c
      * (1 + token_wise_length rule (rcons h c) L' (survivors c xs)))
  else 0.
(* Traversal: the paths one after the other, each by block verification below its first token; what is refused at the root takes
   the target from r to norm((w r - q)+) and the weight from w to the test. *)
Fixpoint traversal_emits (r : T -> A) w xs z : A :=
  match xs, z with
  | (y :: x) :: xs', c :: z' =>
    let v := least N 1 (w * r y / q [::] y) in
    let left := excess N tokens (fun y => w * r y) (q [::]) in
    let rest := mass N tokens left in
    let w' := if rest + (1 - w) <=? 0 then 1 else rest / (rest + (1 - w)) in
    (if c == y then block_emits [:: y] v x z' else 0)
    + (1 - block_passes [:: y] v x) * traversal_emits (norm N tokens left r) w' xs' z
  | _, c :: z' => w * (r c * continued [:: c] z')
  | _, [::] => 0
  end.
Definition traversal_output L K z : A :=
  sum (bundles L K) (fun xs => bundle_law [::] xs * traversal_emits (p [::]) 1 xs z).
Fixpoint traversal_length (r : T -> A) w xs : A :=
  if xs is (y :: x) :: xs' then
    let v := least N 1 (w * r y / q [::] y) in
    let left := excess N tokens (fun y => w * r y) (q [::]) in
    let rest := mass N tokens left in
    let w' := if rest + (1 - w) <=? 0 then 1 else rest / (rest + (1 - w)) in
    let passes := block_passes [:: y] v x in
    passes + block_length [:: y] v x + (1 - passes) * traversal_length (norm N tokens left r) w' xs'
  else 0.

(* Joint selection: at every node one of the tokens x is selected, position i with probability (choice h w x)_i; its law is
   m h w j where j paths are alive; then the ladder of block verification with m in the place of q. *)
Section Joint.
Variables (choice : seq T -> A -> seq T -> seq A) (m : seq T -> A -> nat -> T -> A).
Definition chance h w x (y : T) : A := sum (zip x (choice h w x)) (fun a => if a.1 == y then a.2 else 0).
Fixpoint joint_passes h w L xs : A :=
  if L is L'.+1 then
    let m := m h w (size xs) in
    sum tokens (fun y => chance h w (heads xs) y *
      let longer := joint_passes (rcons h y) (next_weight h w m y) L' (survivors y xs) in
      longer + (1 - longer) * test h w m)
  else w.
Fixpoint joint_emits h w L xs z : A :=
  match L, z with
  | L'.+1, c :: z' =>
    let m := m h w (size xs) in
    sum tokens (fun y => chance h w (heads xs) y *
      let w' := next_weight h w m y in
      (if c == y then joint_emits (rcons h y) w' L' (survivors y xs) z' else 0)
      + (1 - joint_passes (rcons h y) w' L' (survivors y xs))
        * (test h w m * following h w m c * continued (rcons h c) z'))
  | _, _ => w * continued h z
  end.
Fixpoint joint_length h w L xs : A :=
  if L is L'.+1 then
    let m := m h w (size xs) in
    sum tokens (fun y => chance h w (heads xs) y *
      let w' := next_weight h w m y in
      let longer := joint_passes (rcons h y) w' L' (survivors y xs) in
      longer + joint_length (rcons h y) w' L' (survivors y xs))
  else 0.
Fixpoint joint_weights h w L xs : A :=
  if L is L'.+1 then
    sum tokens (fun y => chance h w (heads xs) y *
      let w' := next_weight h w (m h w (size xs)) y in w' + joint_weights (rcons h y) w' L' (survivors y xs))
  else 0.
Definition joint_output L K z : A := sum (bundles L K) (fun xs => bundle_law [::] xs * joint_emits [::] 1 L xs z).
End Joint.

(* Joint selection as it is computed: optimal selection for the scaled target w p. *)
Definition optimal_choice h w x : seq A :=
  let wp := fun y => w * p h y in let s := by_ratio N tokens wp (q h) in
  choose N (optimal_levels N wp (q h) (size x) s) [seq index y s | y <- x].
Definition optimal_selected h w j : T -> A :=
  let wp := fun y => w * p h y in optimal_law N tokens wp (q h) j (by_ratio N tokens wp (q h)).
Definition optimal_joint_output := joint_output optimal_choice optimal_selected.

(** The expected number of accepted tokens. *)

Definition expected L K (accepted : seq (seq T) -> A) : A := sum (bundles L K) (fun xs => bundle_law [::] xs * accepted xs).
Definition expected_block L : A := sum (drafts tokens L) (fun x => in_sequence N q [::] x * block_length [::] 1 x).
Definition expected_token_wise rule L K : A := expected L K (token_wise_length rule [::] L).
Definition expected_traversal L K : A := expected L K (traversal_length (p [::]) 1).
Definition expected_joint L K : A := expected L K (joint_length optimal_choice optimal_selected [::] 1 L).

End Paths.

Arguments next_weight : simpl never. Arguments left_over : simpl never. Arguments test : simpl never.
Arguments following : simpl never. Arguments heads : simpl never. Arguments survivors : simpl never.
Arguments chance : simpl never. Arguments bundle_law : simpl never. Arguments bundles : simpl never.
